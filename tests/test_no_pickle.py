"""Nothing in the sources can run what a file holds."""

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
MODULES = {"cloudpickle", "code", "dill", "joblib", "marshal", "pickle", "shelve"}
CALLS = {
    "ast.literal_eval",  # it runs nothing, and nests until it crashes
    "literal_eval",
    "np.load",
    "numpy.load",
    "os.popen",
    "os.system",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "torch.export.load",
    "torch.hub.load",
    "torch.jit.load",
    "torch.load",
    "torch.package.PackageImporter",
    "torch.save",
    "yaml.full_load",
    "yaml.load_all",
    "yaml.unsafe_load",
}
BUILTINS = {"__import__", "compile", "eval", "exec"}
TRUE = {"allow_pickle", "shell", "trust_remote_code"}
LOADER = "_Loader"  # the config's own, a SafeLoader without tags


def faults(source: str) -> list[str]:
    told = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            told += [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            told += [node.module or ""] if (node.module or "") in MODULES else []
        elif isinstance(node, ast.Call):
            told += call_faults(node)
    return told


def call_faults(node: ast.Call) -> list[str]:
    called = ast.unparse(node.func)
    arguments = [ast.unparse(a) for a in node.args]
    named = {k.arg: ast.unparse(k.value) for k in node.keywords}
    told = [called] if called in CALLS | BUILTINS else []
    told += [
        f"{called}: {name}" for name in TRUE if named.get(name, "False") != "False"
    ]
    if called == "yaml.load" and [*arguments[1:], *named.values()] != [LOADER]:
        told.append(f"{called}: another loader")
    return told


def test_nothing_in_the_sources_unpickles() -> None:
    """No pickle, no evaluated text, no shell, no YAML that constructs objects."""
    files = sorted(SOURCES.rglob("*.py"))

    assert files
    assert {} == {str(p): told for p in files if (told := faults(p.read_text()))}


def test_the_loader_of_configs_constructs_nothing() -> None:
    """It is a safe one, and refuses every tag before that."""
    import yaml

    from speedtronic.shell import config_file

    assert issubclass(config_file._Loader, yaml.SafeLoader)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from dill import loads",
        "torch.load(path)",
        "torch.load(path, weights_only=True)",
        "np.load(path, allow_pickle=True)",
        "np.fromfile(path, allow_pickle=flag)",
        "eval('1')",
        "exec(text)",
        "compile(text, 'f', 'exec')",
        "ast.literal_eval(text)",
        "os.system(line)",
        "subprocess.run(line, shell=True)",
        "subprocess.Popen(line, shell=flag)",
        "yaml.load(text)",
        "yaml.load(text, yaml.Loader)",
        "yaml.load(text, Loader=yaml.FullLoader)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
    ],
)
def test_the_rule_can_fail(source: str) -> None:
    """Each way is noticed."""
    assert faults(source)


@pytest.mark.parametrize(
    "source",
    [
        "yaml.load(text, _Loader)",
        "subprocess.run([name], shell=False)",
        "re.compile(pattern)",
        "self.compile(step)",
    ],
)
def test_the_rule_is_no_stricter(source: str) -> None:
    """What is needed is left."""
    assert not faults(source)
