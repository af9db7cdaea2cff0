"""Hooks: the records of a run, handed to trackers and to the user's own code.

A hook may be slow, hang or fail; training never notices. Each has a thread and a
bounded queue of its own: when the queue is full, new records are dropped for that hook,
counted and told. A hook that raises is told once, closed and left alone from then on.
Closing waits a bounded time for all hooks together.

A hook is made and called on its thread only, so it may hold things that belong to one
thread. It sees plain numbers, and a config without secrets.
"""

import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import attrs

from speedtronic.errors import ConfigError
from speedtronic.pure.metrics import StepRecord
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.factory import failure, nearest, resolve
from speedtronic.shell.redact import redact

logger = logging.getLogger(__name__)
TRACKERS = ("tensorboard", "wandb", "trackio")  # also the names of their packages


def no_history(after: int) -> Iterator[StepRecord]:
    """The history of a run that has just begun."""
    del after
    return iter(())


def _without_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    return from_json(redact(to_json(config)))


@attrs.frozen(kw_only=True)
class RunInfo:
    """What a hook may know of the run.

    ``history(after)`` gives the records of earlier attempts that still count, of steps
    past ``after``: a tracker fills from it what a killed process did not deliver.
    """

    run: str  # name of the run; trackers group by it
    node: str  # name of this node; what trackers call a run
    project: str
    folder: Path  # of the run on this node
    config: Mapping[str, Any] = attrs.field(converter=_without_secrets)
    resumed_from: int | None = None  # step of the checkpoint
    history: Callable[[int], Iterator[StepRecord]] = no_history


class Hook(Protocol):
    """What a hook implements; the calls come in this order, on one thread."""

    def on_start(self, info: RunInfo) -> None:
        """Begin, before the first record."""

    def on_record(self, record: StepRecord) -> None:
        """Take one record."""

    def on_end(self, summary: Mapping[str, Any], error: str | None) -> None:
        """Take the run's summary; ``error`` says why it failed, if it did."""

    def close(self) -> None:
        """Let go of everything; called once, after a failure too."""


class Hooks:
    """The running hooks of one run, made by `build_hooks`."""

    def __init__(self, workers: Sequence["_Worker"]) -> None:
        self._workers = workers
        self._closed = False

    def record(self, record: StepRecord) -> None:
        """Hand a record to every hook; never waits."""
        for worker in self._workers:
            worker.record(record)

    def close(
        self,
        summary: Mapping[str, Any],
        error: str | None = None,
        *,
        timeout_s: float = 15.0,
    ) -> None:
        """End every hook, at the end of the run and when it failed.

        Waits at most ``timeout_s`` for all of them together, then says which did not
        finish and goes on. Closing twice is fine.
        """
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            worker.end(_End(summary, error))
        deadline = time.monotonic() + timeout_s
        for worker in self._workers:
            worker.wait(max(0.0, deadline - time.monotonic()), timeout_s)


def build_hooks(
    hooks: Sequence[str | Callable[[], Hook]], info: RunInfo, *, capacity: int = 1024
) -> Hooks:
    """Find and start the hooks of a run.

    Args:
        hooks: ``tensorboard``, ``wandb``, ``trackio``, ``package.module:factory``, or
            a factory itself; ``factory()`` gives a `Hook`, so a class is a factory.
        info: what the hooks are told at the start.
        capacity: records that may wait for one hook.

    Raises:
        ConfigError: as `find_hooks`, before any hook starts.
    """
    found = find_hooks(hooks)
    return Hooks([_Worker(name, make, info, capacity) for name, make in found])


def find_hooks(
    hooks: Sequence[str | Callable[[], Hook]],
) -> list[tuple[str, Callable[[], Hook]]]:
    """The name and the factory of each hook, without making any.

    Raises:
        ConfigError: one line per name that cannot be used.
    """
    problems: list[str] = []
    factories: list[tuple[str, Callable[[], Hook]]] = []
    for hook in dict.fromkeys(hooks):
        if not isinstance(hook, str):
            factories.append((getattr(hook, "__qualname__", repr(hook)), hook))
            continue
        try:
            factories.append((hook, _factory(hook)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return factories


def _factory(name: str) -> Callable[[], Hook]:
    """What ``logging.hooks`` means by a name."""
    if ":" in name:
        return resolve(name, "logging.hooks")
    if name not in TRACKERS:
        raise ConfigError(
            f"logging.hooks: expected one of {', '.join(TRACKERS)} or "
            f"package.module:factory, found {name!r}{nearest(name, TRACKERS)}"
        )
    if importlib.util.find_spec(name) is None:
        raise ConfigError(
            f"logging.hooks: {name} needs a package that is not installed; "
            f"pip install speedtronic[{name}]"
        )

    def tracker() -> Hook:  # imported on the hook's thread: it may take a second
        module = importlib.import_module(f"speedtronic.shell.trackers.{name}")
        made: Hook = module.Tracker()
        return made

    return tracker


@attrs.frozen
class _End:
    summary: Mapping[str, Any]
    error: str | None


class _Worker:
    """One hook, its thread and its queue."""

    def __init__(
        self, name: str, make: Callable[[], Hook], info: RunInfo, capacity: int
    ) -> None:
        self._name = name
        self._make = make
        self._info = info
        self._capacity = capacity
        self._queue: SimpleQueue[StepRecord | _End] = SimpleQueue()
        self._dropped = 0
        self._failed = False
        # A daemon: a hook that hangs must not keep the process alive either.
        self._thread = threading.Thread(
            target=self._run, name=f"hook {name}", daemon=True
        )
        self._thread.start()

    def record(self, record: StepRecord) -> None:
        if self._failed:
            return
        if self._queue.qsize() < self._capacity:
            self._queue.put(record)
            return
        if not self._dropped:
            logger.warning("hook %s is too slow, records are dropped", self._name)
        self._dropped += 1

    def end(self, end: _End) -> None:
        self._queue.put(end)

    def wait(self, seconds: float, of: float) -> None:
        self._thread.join(seconds)
        if self._thread.is_alive():
            logger.warning(
                "hook %s did not finish in %g s; it is left behind with %d records",
                self._name,
                of,
                max(0, self._queue.qsize() - 1),  # the last one is the end
            )
        if self._dropped:
            logger.warning("hook %s: %d records dropped", self._name, self._dropped)

    def _run(self) -> None:
        hook: Hook | None = None
        try:
            hook = self._make()
            hook.on_start(self._info)
            while not isinstance(item := self._queue.get(), _End):
                hook.on_record(item)
            hook.on_end(item.summary, item.error)
        except BaseException as error:  # no signal is raised on this thread
            self._fail(error)
        finally:
            if hook is not None:
                self._close(hook)

    def _close(self, hook: Hook) -> None:
        try:
            hook.close()
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Say what went wrong, once, and take no more records."""
        if not self._failed:
            told = redact(failure(error))
            logger.warning("hook %s failed and is dropped: %s", self._name, told)
            logger.debug("hook %s", self._name, exc_info=error)
        self._failed = True
