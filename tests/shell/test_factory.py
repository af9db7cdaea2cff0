"""Specs of the form ``package.module:factory``."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from speedtronic.errors import ConfigError
from speedtronic.shell.factory import failure, resolve


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder that is not on the path yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def complaint(spec: str) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(spec, "model.name")
    (line,) = caught.value.problems
    assert "\n" not in line
    return line


def test_a_file_in_the_working_folder_is_found(folder: Path) -> None:
    """A user's file beside the config needs no installation."""
    (folder / "own_models.py").write_text("def build(): return 7\n")

    assert 7 == resolve("own_models:build", "model.name")()


def test_a_file_written_after_the_first_look_is_found(folder: Path) -> None:
    """Import caches do not hide a new file."""
    complaint("late_models:build")
    (folder / "late_models.py").write_text("def build(): return 7\n")

    assert 7 == resolve("late_models:build", "model.name")()


def test_a_module_in_a_package_and_a_nested_name(folder: Path) -> None:
    """Dots reach into packages on the left and into classes on the right."""
    (folder / "own_package").mkdir()
    (folder / "own_package" / "__init__.py").touch()
    (folder / "own_package" / "nets.py").write_text(
        "class Net:\n    @classmethod\n    def small(cls): return cls()\n"
    )

    found = resolve("own_package.nets:Net.small", "model.name")
    assert "Net" == type(found()).__name__


def test_a_misspelt_module_gets_the_nearest_name(folder: Path) -> None:
    """The files of the working folder are candidates."""
    (folder / "own_models.py").touch()

    line = complaint("own_modles:build")
    assert line.startswith("model.name: 'own_modles:build' needs the module")
    assert line.endswith("did you mean 'own_models'?")


def test_a_misspelt_submodule_gets_the_nearest_name(folder: Path) -> None:
    """The modules of the package are candidates."""
    (folder / "own_package").mkdir()
    (folder / "own_package" / "nets.py").touch()

    assert "in 'own_package', did you mean 'nets'?" in complaint("own_package.nest:f")


def test_a_module_is_not_a_package(folder: Path) -> None:
    """A dot after a plain module is a missing module, not a traceback."""
    (folder / "own_models.py").touch()

    assert "'part', found none in 'own_models'" in complaint("own_models.part:f")


def test_a_misspelt_factory_gets_the_nearest_name(folder: Path) -> None:
    """The names of the module are candidates."""
    (folder / "own_models.py").write_text("def build(): ...\n")

    expected = "model.name: module 'own_models' has no 'biuld', did you mean 'build'?"
    assert expected == complaint("own_models:biuld")


def test_a_value_is_not_a_factory(folder: Path) -> None:
    """What cannot be called is refused with its type."""
    (folder / "own_models.py").write_text("build = 3\n")

    assert "is int, expected a function or class" in complaint("own_models:build")


@pytest.mark.parametrize(
    "spec", ["", "own", "own:", ":f", "a b:f", "own:f()", "own.py:f:g", "../own:f"]
)
def test_another_form_is_refused(spec: str) -> None:
    """The message shows the form that was expected."""
    assert f"expected package.module:factory, found {spec!r}" in complaint(spec)


def test_a_missing_dependency_is_not_taken_for_the_module(folder: Path) -> None:
    """A module that lacks a dependency says which one."""
    (folder / "own_models.py").write_text("import nowhere_to_be_found\n")

    line = complaint("own_models:build")
    assert "importing 'own_models' failed: No module named 'nowhere_to_be_" in line


@pytest.mark.parametrize("body", ["1 / 0", "def f(:", "raise SystemExit(0)", "x = y"])
def test_a_module_that_fails_says_where(folder: Path, body: str) -> None:
    """An error at import is one line with the file and line number."""
    (folder / "own_models.py").write_text(body + "\n")

    line = complaint("own_models:build")
    assert "importing 'own_models' failed: " in line
    assert "line 1" in line


def test_failure_keeps_to_one_line() -> None:
    """Messages of several lines are joined."""
    try:
        raise ValueError("a\n  b")
    except ValueError as error:
        assert failure(error).startswith("ValueError: a b (")


def test_failure_without_a_message() -> None:
    """An error that says nothing still has a type."""
    assert "AssertionError (unknown)" == failure(AssertionError())
