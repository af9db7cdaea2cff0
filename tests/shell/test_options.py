"""Command lines to options."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from speedtronic.shell.commands.train import Options as Train
from speedtronic.shell.commands.train import overrides
from speedtronic.shell.options import (
    UsageError,
    choice,
    flag,
    option,
    optional_value,
    parse,
    positional,
    repeated,
)


@dataclass(frozen=True)
class Options:
    run: str = positional("a run", name="run")
    text: str = option("some text", default="x", metavar="TEXT")
    count: int | None = option("a number", default=None, metavar="N", kind=int)
    rate: float | None = option("a number", default=None, metavar="X", kind=float)
    kind: str = choice("a kind", ["a", "b"], default="a")
    resume: str | None = optional_value("go on", metavar="auto|PATH")
    set: Sequence[str] = repeated("a field", name="--set", metavar="A=B")
    quiet: bool = flag("say less")


def read(*arguments: str) -> Options:
    return parse(Options, "test", "For tests.", arguments)


def test_what_is_not_given_keeps_its_default() -> None:
    """Nothing but the positional argument is required."""
    assert Options(run="r") == read("r")


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        (["--text", "a b"], "text", "a b"),
        (["--text=--x"], "text", "--x"),
        (["--count", "5"], "count", 5),
        (["--count", "-5"], "count", -5),
        (["--rate", "1e-3"], "rate", 1e-3),
        (["--kind", "b"], "kind", "b"),
        (["--resume"], "resume", "auto"),
        (["--resume", "auto"], "resume", "auto"),
        (["--resume", "a/b"], "resume", "a/b"),
        (["--set", "a=1"], "set", ["a=1"]),
        (["--set", "a=1", "--quiet", "--set", "b=2"], "set", ["a=1", "b=2"]),
        (["--quiet"], "quiet", True),
        (["--no-quiet"], "quiet", False),
        (["--quiet", "--no-quiet"], "quiet", False),
    ],
)
def test_every_spelling_means_what_it_says(
    given: list[str], field: str, expected: object
) -> None:
    """Values, repeated options, an option without its value, and flags both ways."""
    assert expected == getattr(read("r", *given), field)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "the following arguments are required: run"),
        (["r", "--quiet=false"], "ignored explicit argument 'false'"),
        (["r", "--quiet", "false"], "unknown argument false"),
        (["r", "--count", "x"], "invalid int value: 'x'"),
        (["r", "--count", "1.5"], "invalid int value: '1.5'"),
        (["r", "--count"], "expected one argument"),
        (["r", "--kind", "c"], "invalid choice: 'c'"),
        (["r", "--set"], "expected 1 argument"),
        (["r", "--txt", "a"], "unknown argument --txt; did you mean --text?"),
        (["r", "--tex=a"], "unknown argument --tex; did you mean --text?"),
        (["r", "--Quiet"], "unknown argument --Quiet; did you mean --quiet?"),
        (["r", "--no_quiet"], "unknown argument --no_quiet; did you mean --no-quiet?"),
        (["r", "--zzz"], "unknown argument --zzz"),
        (["r", "s"], "unknown argument s"),
    ],
)
def test_every_other_spelling_is_refused(given: list[str], told: str) -> None:
    """Nothing is guessed, abbreviated or dropped; the usage is shown."""
    with pytest.raises(UsageError) as caught:
        read(*given)

    assert told in str(caught.value)
    assert caught.value.usage.startswith("usage: speedtronic test")


def test_help_tells_each_option_and_no_python_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``--help`` is text for a user and ends with success."""
    with pytest.raises(SystemExit) as caught:
        read("--help")

    shown = capsys.readouterr().out
    assert caught.value.code == 0
    assert [] == [w for w in ("--text TEXT", "--quiet, --no-quiet") if w not in shown]
    assert "MISSING" not in shown


def test_options_that_are_not_given_override_nothing() -> None:
    """The file decides unless the command line says something."""
    assert [] == overrides(Train(config="c"))
    assert ["run.device=cpu", "run.output_dir=out"] == overrides(
        Train(config="c", device="cpu", output_dir="out")
    )
