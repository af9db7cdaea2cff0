"""What a person sees of a run: one line per logged step, and a bar on a terminal.

The line has one format wherever it goes; it is a log line, so its level and its file
are those of `shell/logs.py`. The bar lives at the foot of a terminal, is erased at the
end, and anything printed meanwhile appears above it. Where the error stream is not a
terminal there is no bar and no escape code.
"""

import math
import os
import sys
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from speedtronic.pure.metrics import StepRecord

LEAST = 2**26  # bytes of a source whose preparation is worth telling about


def step_line(
    record: StepRecord, last_step: int | None = None, eta_seconds: float | None = None
) -> str:
    """One line about a logged step; parts that are absent are left out.

    >>> from speedtronic.testing.records import example_record
    >>> print(step_line(example_record(120, loss=2.34561), 2000, eta_seconds=3725))
    step 120/2000  loss 2.3456  lr 1.0e-03  2.05k tok/s  norm 0.812  eta 1:02:05
    """
    of = "" if last_step is None else f"/{last_step}"
    rate = record.tokens_per_second
    parts = [
        f"step {record.step}{of}",
        f"loss {record.loss:.4f}",
        f"lr {record.learning_rate:.1e}",
        "" if rate is None else f"{compact(rate)} tok/s",
        _optional("mfu", record.mfu, ".1%"),
        f"norm {record.gradient_norm:.3g}",
        _optional("val", record.validation_loss, ".4f"),
        _optional("averaged", record.average_validation_loss, ".4f"),
        _optional("bpb", record.bits_per_byte, ".4f"),
        _optional("scale", record.loss_scale, "g"),
        f"skipped {record.skipped_steps}" if record.skipped_steps else "",
        "" if eta_seconds is None else f"eta {duration(eta_seconds)}",
    ]
    return "  ".join(part for part in parts if part)


def compact(number: float) -> str:
    """A number with three digits and a unit of thousands.

    >>> compact(12345.0), compact(0.5), compact(999.96), compact(2.5e6)
    ('12.3k', '0.5', '1k', '2.5M')
    """
    for unit in ("", "k", "M", "G", "T"):
        if abs(number) < 999.5 or unit == "T":
            break
        number /= 1000
    return f"{number:.3g}{unit}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(59.6), duration(3725)
    ('1:00', '1:02:05')
    """
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Eta:
    """How long the rest of a run takes, at the pace of this attempt.

    Args:
        last_step: the step at which the run ends, None if time ends it.
    """

    def __init__(self, last_step: int | None) -> None:
        self._last_step = last_step
        self._first: StepRecord | None = None

    def __call__(self, record: StepRecord) -> float | None:
        """Seconds left, None while there is nothing to judge by.

        The pace is counted from the attempt's first record on, so that compiling and
        warming up are not in it.
        """
        first = self._first = self._first or record
        done = record.step - first.step
        if self._last_step is None or done <= 0:
            return None
        pace = (record.wall_seconds - first.wall_seconds) / done
        return pace * (self._last_step - record.step)


class PreparationBar:
    """A bar of bytes per source on a terminal, while it takes long.

    Args:
        stream: a terminal.
        least: bytes; what is shorter is done before anybody wonders.
    """

    def __init__(self, stream: TextIO, least: int = LEAST) -> None:
        self._stream, self._least = stream, least
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, source: str, done: int, total: int) -> None:
        """Show that so many bytes of a source are read."""
        if total < self._least:
            return
        if self._progress is None:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TimeRemainingColumn(),
                console=Console(file=self._stream),
                transient=True,
                redirect_stdout=sys.stdout.isatty(),  # a pipe keeps what it is sent
                refresh_per_second=4,
            )
            self._progress.start()
        if source not in self._tasks:
            self._tasks[source] = self._progress.add_task(source, total=total)
        self._progress.update(self._tasks[source], completed=done, total=total)
        if self._progress.finished:
            self.close()

    def close(self) -> None:
        """Erase the bar; a later source begins another one."""
        if self._progress is not None:
            self._progress.stop()
        self._progress, self._tasks = None, {}


def takes_bars(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can draw."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


class ProgressBar:
    """A bar of steps on a terminal; elsewhere it does nothing.

    Args:
        last_step: the step at which the run ends, None if time ends it.
        done: steps finished before this attempt.
        label: what the steps are of.
        enabled: False for quiet runs and for ``--json``.
        stream: where the bar goes, the error stream by default.
    """

    def __init__(
        self,
        last_step: int | None,
        done: int = 0,
        *,
        label: str = "train",
        enabled: bool = True,
        stream: TextIO | None = None,
    ) -> None:
        stream = sys.stderr if stream is None else stream
        self._progress: Progress | None = None
        if not enabled or not takes_bars(stream):
            return
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream),
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # a pipe keeps what it is sent
            refresh_per_second=4,
        )
        self._task = self._progress.add_task(label, total=last_step, completed=done)

    def advance(self, step: int) -> None:
        """Show that ``step`` steps are finished; cheap enough for every step."""
        if self._progress is not None:
            self._progress.update(self._task, completed=step)

    def __enter__(self) -> "ProgressBar":
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def _optional(name: str, value: float | None, form: str) -> str:
    return "" if value is None else f"{name} {value:{form}}"
