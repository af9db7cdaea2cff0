"""Nothing in the sources can run what a file holds."""

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
MODULES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
CALLS = {"torch.load", "torch.save", "numpy.load", "np.load", "yaml.unsafe_load"}
BUILTINS = {"eval", "exec"}


def faults(source: str) -> list[str]:
    told = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            told += [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            told += [node.module or ""] if (node.module or "") in MODULES else []
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            told += [called] if called in CALLS | BUILTINS else []
    return told


def test_nothing_in_the_sources_unpickles() -> None:
    """No pickle, no evaluated text, no YAML that constructs objects."""
    files = sorted(SOURCES.rglob("*.py"))

    assert files
    assert {} == {str(p): told for p in files if (told := faults(p.read_text()))}


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from dill import loads", "torch.load(path)", "eval('1')"],
)
def test_the_rule_can_fail(source: str) -> None:
    """Each way is noticed."""
    assert faults(source)
