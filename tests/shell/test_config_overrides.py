"""``--set``: one field of a config, over what its file says."""

from pathlib import Path
from typing import Any

import pytest
from tests.shell.test_config import TOKEN

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Secret
from speedtronic.pure.config.fields import value_at
from speedtronic.shell.config import (
    apply_override,
    config_from_dict,
    load_config,
)


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    """In order, in short or full form, without a contradiction to the file."""
    path = tmp_path / "c.yaml"
    path.write_text("max_steps: 5\nprecision: bf16\nlog_every: 3\n")
    overrides = ["run.max_steps=6", "max_steps=7", "precision.mode=fp32"]
    config = load_config(path, [*overrides, "logging.every_steps=4"])

    assert (7, "fp32", 4) == (
        config.run.max_steps,
        config.precision.mode,
        config.logging.every_steps,
    )


@pytest.mark.parametrize(
    ("assignment", "path", "expected"),
    [
        ("optimizer.lr=1e-3", "optimizer.lr", 1e-3),
        ("run.max_steps=1e3", "run.max_steps", 1000),
        ("optimizer.betas=[0.8, 0.9]", "optimizer.betas", (0.8, 0.9)),
        ("run.name=2024", "run.name", "2024"),
        ("run.name=true", "run.name", "true"),
        ("data.text_path=*.txt", "data.text_path", "*.txt"),
        ("data.text_path=a: b", "data.text_path", "a: b"),
        ("data.text_path=null", "data.text_path", None),
        ("data.text_path='null'", "data.text_path", "null"),
        ("data.text_path=a=b", "data.text_path", "a=b"),
        ("data.text_path=#1 b.txt", "data.text_path", "#1 b.txt"),
        ("data.text_path=a #1.txt", "data.text_path", "a #1.txt"),
        ("data.text_path='a", "data.text_path", "'a"),
        ("distributed.token=12345", "distributed.token", Secret("12345")),
        ("model.kwargs={}", "model.kwargs", {}),
        ("optimizer=muon", "optimizer.name", "muon"),
        ("optimizer={name: muon, lr: 1}", "optimizer.lr", 1.0),
        ("hub.inner_steps=3", "distributed.inner_steps", 3),
        ("hub={inner_steps: 3}", "distributed.inner_steps", 3),
        ("checkpoint.resume=false", "checkpoint.resume", False),
        ("checkpoint.keep_last=null", "checkpoint.keep_last", None),
        ("compile=true", "compile.enabled", True),
    ],
)
def test_an_override_reads_its_value_as_yaml(
    assignment: str, path: str, expected: Any
) -> None:
    """Text may stay bare where the field holds text."""
    assert expected == value_at(config_from_dict(apply_override({}, assignment)), path)


def test_an_override_reaches_into_keyword_arguments() -> None:
    """Below kwargs every name is the user's."""
    raw = {"model": {"name": "tiny:build", "kwargs": {"depth": 1, "width": 2}}}
    changed = apply_override(raw, "model.kwargs.depth=3")

    assert {"depth": 3, "width": 2} == changed["model"]["kwargs"]
    assert {"depth": 1, "width": 2} == raw["model"]["kwargs"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ("optimizer.lr", "expected PATH=VALUE such as optimizer.lr=1e-3"),
        ("=3", "expected PATH=VALUE"),
        ("a..b=3", "expected PATH=VALUE"),
        ("optimizer.lr=[1", "--set optimizer.lr:1:"),
        ("data.sources.0.path=a", "sources has no fields, it is a list"),
        ("optimizer.lrr=3", "did you mean optimizer.lr?"),
        ("optimizer.lr=fast", "expected a finite number, found the text 'fast'"),
        (
            "optimizer.lr=",
            "expected a value after =, found nothing",
        ),
        ("data.text_path= ", "--set data.text_path: expected a value after ="),
        ("hub={inner_steps: 3, inner_stps: 4}", "did you mean distributed.inner_steps"),
    ],
)
def test_a_bad_override_is_one_line(tmp_path: Path, assignment: str, told: str) -> None:
    """It is told like a mistake in the file, together with those."""
    path = tmp_path / "c.yaml"
    path.write_text("seed: x\ndata: {sources: [{path: a}]}")

    with pytest.raises(ConfigError) as caught:
        load_config(path, [assignment])
    lines = caught.value.problems
    assert 2 == len(lines)
    assert any(told in line for line in lines)
    assert any(line.startswith("run.seed: ") for line in lines)


def test_a_path_without_end_is_refused() -> None:
    """It would nest deeper than any file that has to hold it."""
    with pytest.raises(ConfigError, match="at most 16 names, found 3000"):
        apply_override({}, "model.kwargs" + ".a" * 2998 + "=1")


@pytest.mark.parametrize("value", [10**100, 10**400, -(10**400)])
def test_a_huge_integer_is_refused_everywhere(value: int) -> None:
    """No float holds it, and no file of a run would be read back."""
    with pytest.raises(ConfigError, match="model.kwargs: expected plain finite"):
        config_from_dict({"model": {"kwargs": {"a": value}}})


def test_an_override_without_value_shows_no_secret() -> None:
    """A token typed in the wrong place is not echoed."""
    with pytest.raises(ConfigError) as caught:
        apply_override({}, f".token={TOKEN}")

    assert TOKEN not in str(caught.value)
