"""The import rule: pure code sees values, never the world."""

import ast
from pathlib import Path

import pytest

PURE = Path(__file__).parents[1] / "src/speedtronic/pure"
ALLOWED = {
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "enum",
    "fnmatch",
    "functools",
    "hashlib",
    "inspect",
    "itertools",
    "json",
    "math",
    "re",
    "struct",
    "typing",
    "typing_extensions",
    "attrs",
    "torch",
    "speedtronic.errors",
    "speedtronic.pure",
}
BANNED = {
    "torch.cuda",
    "torch.compile",
    "torch.distributed",
    "torch.hub",
    "torch.load",
    "torch.manual_seed",
    "torch.save",
}
BANNED_CALLS = {"open", "print", "input", "eval", "exec", "__import__"}
NOT_IN_PLACE = {"requires_grad_"}  # marks a fresh alias, writes no value
ONLY_IN_TREE = "torch.utils._pytree"


def imported(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def attribute_paths(tree: ast.AST) -> set[str]:
    return {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}


def under(name: str, roots: set[str]) -> bool:
    return any(name == r or name.startswith(r + ".") for r in roots)


def mentions(path: Path, root: str) -> bool:
    tree = ast.parse(path.read_text())
    return any(under(n, {root}) for n in imported(tree) | attribute_paths(tree))


def faults(source: str) -> list[str]:
    tree = ast.parse(source)
    names = imported(tree)
    told = [f"imports {n}" for n in names if not under(n, ALLOWED) or under(n, BANNED)]
    paths = attribute_paths(tree)
    told += [f"uses {p}" for p in paths if under(p, BANNED)]
    told += [f"touches {p}" for p in paths if p.endswith(".data")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in BANNED_CALLS:
                told.append(f"calls {called.id}")
            if isinstance(called, ast.Attribute):
                name = called.attr
                in_place = name.endswith("_") and not name.endswith("__")
                if in_place and name not in NOT_IN_PLACE:
                    told.append(f"calls in-place {name}")
            told += ["passes out=" for k in node.keywords if k.arg == "out"]
        if isinstance(node, ast.Global):
            told.append("has a global statement")
    return sorted(told)


@pytest.mark.parametrize(
    "path", sorted(PURE.rglob("*.py")), ids=lambda p: str(p.relative_to(PURE))
)
def test_pure_code_touches_only_values(path: Path) -> None:
    """Each file in pure/ imports from an allow-list and writes in place nowhere."""
    assert [] == faults(path.read_text()), f"{path}: move the code to shell/"


@pytest.mark.parametrize(
    "path", sorted(PURE.rglob("*.py")), ids=lambda p: str(p.relative_to(PURE))
)
def test_only_the_tree_module_knows_the_private_pytree(path: Path) -> None:
    """The private import stands in one file."""
    names = imported(ast.parse(path.read_text()))
    assert path.name == "tree.py" or not {n for n in names if ONLY_IN_TREE in n}


def test_one_file_knows_torch_distributed() -> None:
    """How ranks send what they send can be read in one place."""
    knows = [
        path.name
        for path in sorted(PURE.parent.rglob("*.py"))
        if mentions(path, "torch.distributed")
    ]
    assert ["ranks.py"] == knows


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from torch import cuda",
        "import torch\ntorch.manual_seed(1)",
        "x.add_(1)",
        "x.data = y",
        "print(1)",
        "torch.add(a, b, out=c)",
        "from speedtronic.shell import config",
    ],
)
def test_the_rule_can_fail(source: str) -> None:
    """Each way of touching the world is noticed."""
    assert faults(source)
