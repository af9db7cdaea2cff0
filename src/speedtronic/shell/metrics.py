"""The metrics file of a run: one strictly valid JSON object per line.

Every line has ``event``, ``step``, ``attempt`` and ``time``; the other names of a
``train_step`` line are the fields of `StepRecord`. A line goes to the system in one
write, so a killed process leaves at most one torn line, the last, and opening the file
again cuts it off.

A resumed run computes its steps again from the checkpoint's. The lines of later steps
that a dead attempt left are removed first, in one atomic rewrite that keeps all other
lines byte for byte, so that each step stands in the file once.

A file that cannot be written is said once and never stops training.

Deliberately absent: rotation and buffering. A run logs some hundred bytes per record.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs

from speedtronic.errors import RunError, StorageError
from speedtronic.pure.metrics import (
    EVENTS,
    StepRecord,
    Summary,
    add,
    due,
    record_from,
)
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.atomic import explained, write_bytes
from speedtronic.shell.modes import make_file, make_folder, opener
from speedtronic.shell.redact import redact

logger = logging.getLogger(__name__)
Clock = Callable[[], float]
_RECENT = 1 << 16  # bytes


@attrs.frozen(kw_only=True)
class Past:
    """What a metrics file says of the steps that still count."""

    attempts: int = 0
    loss: Summary = attrs.field(factory=Summary)
    validation_loss: Summary = attrs.field(factory=Summary)
    average_validation_loss: Summary = attrs.field(factory=Summary)
    last: StepRecord | None = None  # of the newest logged step


class MetricLog:
    """An open metrics file, made by `start_log` or `resume_log`.

    Its summaries cover the whole run, earlier attempts included. It may be used from
    several threads.
    """

    def __init__(
        self,
        path: Path,
        *,
        past: Past,
        every: int,
        last_step: int | None,
        clock: Clock,
    ) -> None:
        self.path = path
        self.attempt = past.attempts + 1
        self.past = past
        self._every = every
        self._last_step = last_step
        self._clock = clock
        self._lost = 0
        self._told = False
        self._lock = threading.Lock()
        with explained(path):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._file: int | None = opener(str(path), flags)
            self._begin = os.fstat(self._file).st_size

    def due(self, step: int) -> bool:
        """Whether a record of ``step`` is wanted; ask before computing one."""
        return due(step, self._every, self._last_step)

    def write(self, record: StepRecord) -> None:
        """Append the record of a step and take it into the summaries.

        Steps skipped since the record before are told in a line of their own: they are
        known only now, because no step waits for the device.
        """
        before = self.past.last.skipped_steps if self.past.last else 0
        if record.skipped_steps > before:
            skipped = record.skipped_steps - before
            self.event("optimizer_step_skipped", record.step, skipped=skipped)
        self.past = _fold(self.past, record)
        self._append("train_step", attrs.asdict(record))

    def event(self, event: str, step: int, **fields: Any) -> None:
        """Append what happened after ``step`` steps.

        Raises:
            ValueError: if the event is not one of `EVENTS`.
            TypeError: if a field has no JSON form.
        """
        if event not in EVENTS:
            raise ValueError(f"{event!r} is not an event; add it to EVENTS")
        stamp = {"step": step, "attempt": self.attempt, "time": self._clock()}
        self._append(event, stamp | fields)

    def history(self, after: int = 0) -> Iterator[StepRecord]:
        """The records of earlier attempts that still count, of steps past ``after``.

        Trackers that lost some of them, or cannot take back others, are filled from
        here: this file is the one that survives a kill.
        """
        for fields in read_log(self.path, self._begin):
            if fields.get("event") == "train_step" and fields["step"] > after:
                yield record_from(fields)

    def sync(self) -> None:
        """Put all lines on the disk; called before a checkpoint is complete.

        So the records of the steps in a checkpoint survive a power failure with it.
        """
        with self._lock:
            if self._file is not None:
                self._guarded(os.fsync, self._file)

    def close(self) -> None:
        """Sync and close; closing twice is fine."""
        self.sync()
        with self._lock:
            if self._file is None:
                return
            os.close(self._file)
            self._file = None
        if self._lost:
            logger.warning("%s: %d lines were lost", self.path, self._lost)

    def __enter__(self) -> "MetricLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _append(self, event: str, fields: dict[str, Any]) -> None:
        line = redact(to_json({"event": event} | fields)).encode("ascii") + b"\n"
        with self._lock:
            if self._file is None:
                raise ValueError(f"{self.path} is closed")
            if not self._guarded(_write_whole, self._file, line):
                self._lost += 1

    def _guarded(self, action: Callable[..., None], *args: Any) -> bool:
        try:
            with explained(self.path):
                action(*args)
        except StorageError as error:
            if not self._told:
                logger.warning("%s; training goes on without these lines", error)
            self._told = True
            return False
        return True


def start_log(
    path: Path,
    *,
    every: int,
    last_step: int | None,
    overwrite: bool = False,
    clock: Clock = time.time,
) -> MetricLog:
    """Begin the metrics file of a new run.

    Args:
        path: where; missing folders are made.
        every: steps between records.
        last_step: the step at which the run ends, None if time ends it.
        overwrite: replace a file that holds another run's records.
        clock: seconds since 1970.

    Raises:
        RunError: if the file holds records and may not be replaced.
        StorageError: if it cannot be written.
    """
    with explained(path):
        make_folder(path.parent)
        if path.exists() and path.stat().st_size:
            if not overwrite:
                raise RunError(
                    f"{path}: holds the records of another run; resume that run, "
                    "choose another file, or say --overwrite"
                )
            path.unlink()
    return MetricLog(path, past=Past(), every=every, last_step=last_step, clock=clock)


def resume_log(
    path: Path,
    step: int,
    *,
    every: int,
    last_step: int | None,
    clock: Clock = time.time,
) -> MetricLog:
    """Open the metrics file of a run that continues after ``step`` steps.

    Cuts off a torn last line, removes the lines of later steps, and tells both in a
    ``resume`` line. A missing file is begun anew, with a warning.

    Raises:
        StorageError: if it cannot be written.
    """
    if not path.exists():
        logger.warning("%s: not found, the earlier steps are not in the log", path)
    with explained(path):
        make_folder(path.parent)
        make_file(path)
    past, removed = _trim(path, step)
    log = MetricLog(path, past=past, every=every, last_step=last_step, clock=clock)
    log.event("resume", step, removed_lines=removed)
    return log


def read_log(path: Path, end: int | None = None) -> Iterator[dict[str, Any]]:
    """The objects in a metrics file, one per line.

    A last line without a line end is being written or was cut by a kill; it is left
    out.

    Args:
        path: the file.
        end: bytes to read, None for all.

    Raises:
        ValueError: naming the line that is not a strictly valid JSON object.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n") or (end is not None and file.tell() > end):
                return
            try:
                yield from_json(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None


def recent_records(path: Path) -> list[StepRecord]:
    """The newest records of a metrics file, as far as its last 64 KiB hold them.

    Empty if there is no such file, or none in it; a run may be writing to it.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _RECENT))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return []
    return [record for line in lines if (record := _parsed(line)[1]) is not None]


def _trim(path: Path, step: int) -> tuple[Past, int]:
    """Remove what does not count after a resume from ``step``; how many lines."""
    past = Past()
    kept: list[bytes] = []
    damaged: list[int] = []
    removed = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            fields, record = _parsed(line)
            if fields is None and line.endswith(b"\n"):
                damaged.append(number)
            attempt = _integer(fields, "attempt")
            past = attrs.evolve(past, attempts=max(past.attempts, attempt))
            if fields is None or _integer(fields, "step") > step:
                removed += 1
                continue
            kept.append(line)
            past = _fold(past, record) if record else past
    if damaged:
        logger.warning(
            "%s: removed %d damaged lines, the first is line %d",
            path,
            len(damaged),
            damaged[0],
        )
    if removed:
        write_bytes(path, b"".join(kept))
    return past, removed


def _parsed(line: bytes) -> tuple[dict[str, Any] | None, StepRecord | None]:
    """The object in a whole line and its record; None for a torn or damaged line."""
    if not line.endswith(b"\n"):
        return None, None
    try:
        fields = from_json(line)
        step = fields.get("event") == "train_step"
        return fields, record_from(fields) if step else None
    except ValueError:
        return None, None


def _integer(fields: dict[str, Any] | None, name: str) -> int:
    value = (fields or {}).get(name)
    return value if isinstance(value, int) else 0


def _fold(past: Past, record: StepRecord) -> Past:
    def with_value(summary: Summary, value: float | None) -> Summary:
        return summary if value is None else add(summary, record.step, value)

    return Past(
        attempts=past.attempts,
        loss=with_value(past.loss, record.loss),
        validation_loss=with_value(past.validation_loss, record.validation_loss),
        average_validation_loss=with_value(
            past.average_validation_loss, record.average_validation_loss
        ),
        last=record,
    )


def _write_whole(file: int, line: bytes) -> None:
    """Append all of ``line``, or nothing of it."""
    end = os.fstat(file).st_size
    try:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError:
        os.ftruncate(file, end)
        raise
