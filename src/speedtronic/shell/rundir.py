"""The folder of a run: one live owner, one run, and what it was asked to compute.

::

    runs/NAME/
      run.json       the run's id, its config, when it began and when it finished
      checkpoints/   see speedtronic.shell.checkpoint_folder
      .lock          locked by the process that trains here

The lock is the system's (`flock`), so a crash or a kill releases it. Whether the folder
can be written is found out here, before the first step.
"""

import fcntl
import json
import os
import secrets
import shutil
import socket
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import attrs

from speedtronic.errors import ConfigError, Corrupt, RunError, StorageError
from speedtronic.pure.config import Config
from speedtronic.pure.config.compare import compare
from speedtronic.pure.round import plain
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.atomic import explained, remove_folder, sweep, write_bytes
from speedtronic.shell.checkpoint_manifest import FOLDER
from speedtronic.shell.config import config_from_dict, to_dict
from speedtronic.shell.modes import make_folder, opener
from speedtronic.shell.regular import read_limited

Mode = Literal["new", "resume", "auto", "overwrite"]
RECORD = "run.json"
LOCK = ".lock"
# What a run leaves in its folder beside run.json and its checkpoints. An overwritten
# run loses these and nothing else.
LEFT_BY_A_RUN = (
    "checkpoint-lane",
    "transit",
    "metrics.jsonl",
    "node.json",
    "progress.f32",
    "round.json",
    "summary.json",
    "tensorboard",
    "trackio",
    "wandb",
)
_SCHEMA = 1
MAX_RECORD = 1 << 22  # bytes; a config has at most a quarter of it
_OTHER_WAYS = "--resume continues it, --overwrite deletes it, run.name names another"


@attrs.frozen(kw_only=True)
class Finish:
    """When a run was done, and what it took for done."""

    step: int
    max_steps: int
    max_minutes: float | None


@attrs.frozen(kw_only=True)
class Record:
    """The content of ``run.json``."""

    run_id: str
    began: str  # UTC, ISO 8601
    config: Config
    finish: Finish | None = None


class RunDirectory:
    """A run folder that this process owns until `close`; made by `open`."""

    def __init__(
        self,
        path: Path,
        lock: int,
        record: Record,
        *,
        resumed: bool,
        notes: tuple[str, ...],
    ) -> None:
        self.path = path
        self.record = record
        self.resumed = resumed
        self.notes = notes  # what changed since the run began, one line each
        self._lock = lock
        _OPEN.add(self)

    @classmethod
    def open(
        cls,
        path: Path,
        mode: Mode,
        config: Config,
        prepare: Callable[[], None] = lambda: None,
    ) -> "RunDirectory":
        """Take a folder for a run.

        Args:
            path: the run folder, made if it is missing.
            mode: ``new`` needs an empty folder, ``resume`` one with a run in it,
                ``auto`` takes either, ``overwrite`` deletes the run that is there.
            config: of this process; a continued run may differ from it where
                `compare` allows it.
            prepare: called once the folder is locked, before it is looked at: may put
                a run there.

        Raises:
            RunError: the folder is in use, holds something else than the mode needs,
                or cannot be written.
            ConfigError: one line for each change that a continuation may not make.
        """
        try:
            with explained(path):
                if mode == "resume" and not (path / RECORD).exists():
                    raise RunError(f"{path} holds no run to resume (no {RECORD})")
                if mode == "new" and not (path / LOCK).exists():
                    _check_empty(path)  # before writing into what may not be ours
                make_folder(path)
                lock = _take_lock(path)
                try:
                    prepare()
                    return cls._open_locked(path, lock, mode, config)
                except BaseException:
                    os.close(lock)
                    raise
        except StorageError as error:
            raise RunError(f"the run folder is not usable: {error}") from error

    @classmethod
    def check(cls, path: Path, mode: Mode) -> None:
        """Raise what `open` would find wrong with the folder, and change nothing.

        For use before long preparations: what they find out must not cost a run.

        Raises:
            RunError: as `open` does.
        """
        if mode == "new":
            _check_empty(path)
        if mode == "resume" and not (path / RECORD).exists():
            raise RunError(f"{path} holds no run to resume (no {RECORD})")
        if (path / LOCK).exists():
            with explained(path):
                os.close(_take_lock(path))

    @classmethod
    def _open_locked(
        cls, path: Path, lock: int, mode: Mode, config: Config
    ) -> "RunDirectory":
        sweep(path)
        notes: tuple[str, ...] = ()
        if (path / RECORD).exists() and mode in ("resume", "auto"):
            record = _read(path)
            notes = _accept(path, record.config, config)
            record = attrs.evolve(record, config=config)
            _write(path, record)
            return cls(path, lock, record, resumed=True, notes=notes)
        if (path / RECORD).exists() and mode == "overwrite":
            notes = _delete_run(path, config)
        else:
            _check_empty(path)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        record = Record(run_id=secrets.token_hex(8), began=now, config=config)
        _write(path, record)
        return cls(path, lock, record, resumed=False, notes=notes)

    @property
    def run_id(self) -> str:
        """What every checkpoint of this run carries."""
        return self.record.run_id

    @property
    def checkpoints(self) -> Path:
        """The folder of the run's checkpoints."""
        return self.path / self.record.config.checkpoint.directory

    @property
    def finished_step(self) -> int | None:
        """The step at which the run was done; None if it was not, or is not any more.

        A run whose end was moved goes on, unless it is past the new end already.
        """
        finish, run = self.record.finish, self.record.config.run
        if finish is None:
            return None
        same_end = (finish.max_steps, finish.max_minutes) == (
            run.max_steps,
            run.max_minutes,
        )
        past_the_end = run.max_minutes is None and finish.step >= run.max_steps
        return finish.step if same_end or past_the_end else None

    def finish(self, step: int) -> None:
        """Mark the run as done.

        Raises:
            StorageError: the mark cannot be written.
        """
        run = self.record.config.run
        finish = Finish(step=step, max_steps=run.max_steps, max_minutes=run.max_minutes)
        self.record = attrs.evolve(self.record, finish=finish)
        _write(self.path, self.record)

    def close(self) -> None:
        """Give the folder free."""
        if self in _OPEN:
            _OPEN.discard(self)
            os.close(self._lock)

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def recorded_config(path: Path) -> Config | None:
    """What the run in a folder was last asked for; None if there is none.

    Raises:
        RunError: its record is damaged.
    """
    return _read(path).config if (path / RECORD).exists() else None


# A forked worker would keep the lock of a parent that was killed.
_OPEN: "weakref.WeakSet[RunDirectory]" = weakref.WeakSet()


def _forget_locks() -> None:
    for run in list(_OPEN):
        run.close()


os.register_at_fork(after_in_child=_forget_locks)


def _take_lock(path: Path) -> int:
    descriptor = opener(str(path / LOCK), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        owner = {"pid": os.getpid(), "host": socket.gethostname()}
        os.write(descriptor, f"{json.dumps(owner)}\n".encode())
    except BlockingIOError:
        holder = _holder(descriptor)
        os.close(descriptor)
        raise RunError(
            f"{path} is in use by {holder}; wait for it, stop it, or choose another"
            " folder"
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _holder(descriptor: int) -> str:
    try:
        told = from_json(os.pread(descriptor, 4096, 0))
        return f"process {told['pid']} on {told['host']}"
    except (ValueError, KeyError):
        return "another process"  # which has only just taken it


def _visible(path: Path) -> list[str]:
    if not path.is_dir():
        return []
    return sorted(e.name for e in path.iterdir() if not e.name.startswith("."))


def _check_empty(path: Path) -> None:
    if (path / RECORD).exists():
        raise RunError(f"{path} holds a run already: {_OTHER_WAYS}")
    if names := _visible(path):
        raise RunError(
            f"{path} is not empty and holds no run ({', '.join(names[:3])}"
            f"{', ...' if names[3:] else ''}); choose another folder"
        )


def _accept(path: Path, old: Config, new: Config) -> tuple[str, ...]:
    """Say what a continuation changes, or refuse it."""
    told = compare(old, new)
    if told.refused:
        raise ConfigError(
            [
                f"{change}: the run in {path} was begun with the first value and can"
                " only go on with it; set it back, or begin another run"
                for change in told.refused
            ]
        )
    return tuple(f"changed since the run began: {change}" for change in told.allowed)


def _read(path: Path) -> Record:
    try:
        told = plain.record(
            from_json(read_limited(path / RECORD, MAX_RECORD)), RECORD, _READERS
        )
        del told["schema"]
        return Record(**{**told, "config": config_from_dict(told["config"])})
    except (OSError, ValueError, Corrupt, ConfigError) as error:
        raise RunError(
            f"{path / RECORD} is damaged or of another version"
            f" ({' '.join(str(error).split())}); the checkpoints beside it are"
            " untouched: begin a run of another name with checkpoint.resume at one"
        ) from error


def _write(path: Path, record: Record) -> None:
    told = {
        "schema": _SCHEMA,
        "run_id": record.run_id,
        "began": record.began,
        "finish": None if record.finish is None else attrs.asdict(record.finish),
        "config": to_dict(record.config),
    }
    write_bytes(path / RECORD, f"{to_json(told)}\n".encode())


def _delete_run(path: Path, config: Config) -> tuple[str, ...]:
    """Delete what a run left, but for its record; say what else is there and stays."""
    with suppress(RunError):  # then its checkpoints are where the new run's will be
        config = _read(path).config
    checkpoints = path / config.checkpoint.directory
    with explained(path):
        for name in LEFT_BY_A_RUN:
            _delete(path / name)
        for entry in checkpoints.iterdir() if checkpoints.is_dir() else ():
            if FOLDER.match(entry.name) and entry.is_dir():
                remove_folder(entry)
        sweep(checkpoints)
        if checkpoints.is_dir() and not any(checkpoints.iterdir()):
            checkpoints.rmdir()
    left = [name for name in _visible(path) if name != RECORD]
    return (f"not this run's, left as it is: {', '.join(left)}",) if left else ()


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _finish(value: Any, where: str) -> Finish:
    return Finish(**plain.record(value, where, _FINISH))


def _minutes(value: Any, where: str) -> float:
    if type(value) not in (int, float):
        raise Corrupt(f"{where}: expected a number, found {plain.shorten(value)}")
    return float(value)


_FINISH: dict[str, plain.Reader[Any]] = {
    "step": plain.integer(),
    "max_steps": plain.integer(),
    "max_minutes": plain.optional(_minutes),
}
_READERS: dict[str, plain.Reader[Any]] = {
    "schema": plain.one_of(_SCHEMA),
    "run_id": plain.words(100),
    "began": plain.words(100),
    "finish": plain.optional(_finish),
    "config": lambda value, where: value,
}
