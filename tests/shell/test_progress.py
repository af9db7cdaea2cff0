"""The line per step, and the bar that only a terminal sees."""

import io
import logging
import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import pytest

from speedtronic.shell.console import preparation
from speedtronic.shell.logs import logging_to
from speedtronic.shell.progress import Eta, PreparationBar, ProgressBar, step_line
from speedtronic.testing.records import example_record


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A usual terminal, whatever the tests run in."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def terminal() -> Iterator[tuple[TextIO, list[str]]]:
    """A stream that is a terminal, and what was written to it once closed."""
    master, slave = pty.openpty()
    written: list[str] = []
    with open(slave, "w") as stream:
        yield stream, written
    text = b""
    with suppress(OSError):  # the terminal's way of saying that all is read
        while piece := os.read(master, 1 << 16):
            text += piece
    written.append(text.decode())
    os.close(master)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"loss": 2.34561, "learning_rate": 9.8e-4, "tokens_per_second": 12345.6},
            "step 120/2000  loss 2.3456  lr 9.8e-04  12.3k tok/s  norm 0.812",
        ),
        (
            {"loss": float("nan"), "gradient_norm": float("inf"), "skipped_steps": 2},
            "step 120/2000  loss nan  lr 1.0e-03  2.05k tok/s  norm inf  skipped 2",
        ),
        (
            {"tokens_per_second": None, "validation_loss": 2.5, "bits_per_byte": 1.25},
            "step 120/2000  loss 0.0833  lr 1.0e-03  norm 0.812  val 2.5000"
            "  bpb 1.2500",
        ),
        (
            {"loss_scale": 65536.0},
            "step 120/2000  loss 0.0833  lr 1.0e-03  2.05k tok/s  norm 0.812"
            "  scale 65536",
        ),
    ],
)
def test_the_line_has_one_format(changes: dict[str, object], line: str) -> None:
    """Absent parts are left out, odd numbers are shown as they are."""
    assert line == step_line(example_record(120, **changes), 2000)


def test_a_run_that_time_ends_has_no_last_step() -> None:
    """Neither the line nor the remaining time guesses one."""
    record = example_record(3)

    assert step_line(record).startswith("step 3  loss")
    assert Eta(None)(record) is None


def test_the_remaining_time_follows_the_pace_of_this_attempt() -> None:
    """Resumed at 100 after 1000 s, then 2 s per step: 30 steps take 60 s."""
    eta = Eta(last_step=150)

    assert eta(example_record(101, wall_seconds=1000.0)) is None
    assert 60.0 == eta(example_record(120, wall_seconds=1038.0))
    assert 0.0 == eta(example_record(150, wall_seconds=1098.0))


def test_a_pipe_gets_no_bar_and_no_escape_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where nobody watches only the lines are written."""
    with logging_to("INFO"), ProgressBar(last_step=10) as bar:
        bar.advance(5)
        logging.getLogger("speedtronic").info("step 5")
    captured = capsys.readouterr()

    assert ("", "step 5\n") == (captured.out, captured.err)


def test_color_forced_by_the_environment_makes_no_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FORCE_COLOR does not turn a pipe into a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    with ProgressBar(last_step=10, stream=stream) as bar:
        bar.advance(5)

    assert "" == stream.getvalue()


def test_a_terminal_gets_a_bar_that_is_erased_at_the_end() -> None:
    """The bar shows how far the run is; the cursor comes back."""
    with terminal() as (stream, written), ProgressBar(10, done=4, stream=stream) as bar:
        bar.advance(7)
    (text,) = written

    assert "7/10" in text
    assert text.rstrip("\r\n").endswith(("\x1b[2K", "\x1b[?25h"))


def test_lines_stand_above_the_bar_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log line is on a line of its own, never inside the bar."""
    with terminal() as (stream, written):
        monkeypatch.setattr(sys, "stderr", stream)
        with logging_to("INFO"), ProgressBar(10, stream=stream) as bar:
            for step in (1, 2, 3):
                bar.advance(step)
                logging.getLogger("speedtronic").info("step %d  loss 2.5", step)
        assert sys.stderr is stream
    plain = written[0].replace("\x1b[2K", "\n").replace("\r", "\n").split("\n")

    assert ["step 1  loss 2.5", "step 2  loss 2.5", "step 3  loss 2.5"] == [
        line for line in plain if line.startswith("step")
    ]


def test_standard_output_in_a_pipe_is_not_taken_by_the_bar() -> None:
    """What a program prints still goes where it was sent."""
    before = sys.stdout
    with terminal() as (stream, _), ProgressBar(10, stream=stream):
        assert sys.stdout is before


@pytest.mark.parametrize("reason", ["disabled", "dumb"])
def test_no_bar_if_disabled_or_dumb(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quiet runs, --json and simple terminals see no bar."""
    if reason == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    with terminal() as (stream, written):
        with ProgressBar(10, stream=stream, enabled=reason == "dumb") as bar:
            bar.advance(5)
        stream.write("x")

    assert ["x"] == written


def test_an_error_under_the_bar_gives_the_terminal_back() -> None:
    """The streams are restored when training fails."""
    streams = (sys.stdout, sys.stderr)
    with terminal() as (stream, _):
        with pytest.raises(KeyError), ProgressBar(10, stream=stream):
            raise KeyError
        assert streams == (sys.stdout, sys.stderr)
        stream.write("x")


def test_a_long_preparation_has_a_bar_on_a_terminal() -> None:
    """Of bytes, one line per source, erased when all of them are read."""
    with terminal() as (stream, written):
        bar = PreparationBar(stream, least=100)
        bar("short.txt", 50, 99)
        assert bar._progress is None
        bar("a.txt", 50, 200)
        assert bar._progress is not None
        bar._progress.refresh()
        bar("a.txt", 200, 200)
        assert bar._progress is None
        bar("b.txt", 100, 400)
        bar.close()
        bar.close()

    assert "a.txt" in written[0] and "50/200" in written[0]
    assert "b.txt" in written[0] and "short.txt" not in written[0]
    assert written[0].endswith("\x1b[2K")


def test_elsewhere_a_preparation_tells_each_tenth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipe, in a terminal that cannot draw, and where no bar is wanted."""
    size = 1 << 30
    for simple in ("pipe", "dumb", "unwanted"):
        with terminal() as (stream, written):
            if simple != "pipe":
                monkeypatch.setattr(sys, "stderr", stream)
            monkeypatch.setenv("TERM", "dumb" if simple == "dumb" else "xterm")
            with preparation(simple != "unwanted") as report:
                report("a.txt", size // 2, size)
            monkeypatch.undo()
        found = capsys.readouterr().err if simple == "pipe" else written[0]
        assert "a.txt: 50 %" == found.strip()


def test_a_terminal_gets_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is gone when the preparation failed."""
    with terminal() as (stream, written):
        monkeypatch.setattr(sys, "stderr", stream)
        with suppress(OSError), preparation() as report:
            report("a.txt", 1 << 29, 1 << 30)
            raise OSError("no space left")
        assert isinstance(report, PreparationBar) and report._progress is None

    assert "a.txt" in written[0] and " %" not in written[0]
