"""Any lane, with faults on schedule: to test how a program bears them.

Calls are numbered from 0. The schedule says which fault call number n meets, as a
dict or as a function of n and of the operation's name (``head``, ``names``, ``read``,
``fetch`` or ``commit``). So a failure that was seen once can be had again.

Nothing sleeps here: a call that is `Slow` says so to the ``sleep`` that was given.
"""

import hashlib
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import attrs

from speedtronic.errors import LaneError, Unavailable
from speedtronic.shell.lanes.base import Blob, Lane, Parent
from speedtronic.shell.lanes.files import content_of, replacing

_HEADS = 64  # heads remembered, for those that come back


@attrs.frozen
class Fail:
    """The call raises.

    With ``applied`` it is carried out first, and only the answer is lost. For a commit
    this is the failure that must not be repeated blindly.
    """

    error: type[LaneError] = Unavailable
    applied: bool = False


@attrs.frozen
class Stale:
    """``head`` answers what was the head ``back`` changes ago, as far as was seen."""

    back: int = 1


@attrs.frozen
class Late:
    """A commit raises Unavailable and is carried out after ``calls`` more calls."""

    calls: int = 1


@attrs.frozen
class Twice:
    """A commit is carried out, and then sent again; the second answer is lost."""


@attrs.frozen
class Flip:
    """``read`` and ``fetch`` give content of which one bit is wrong."""


@attrs.frozen
class Slow:
    """The call takes ``seconds`` longer."""

    seconds: float


Fault: TypeAlias = Fail | Stale | Late | Twice | Flip | Slow
Schedule: TypeAlias = Mapping[int, Fault] | Callable[[int, str], Fault | None]


def between(start: int, stop: int, fault: Fault) -> Schedule:
    """The same fault for calls ``start`` to ``stop - 1``: an outage, a partition.

    >>> between(2, 4, Fail())(3, "head")
    Fail(error=<class 'speedtronic.errors.Unavailable'>, applied=False)
    """
    return lambda call, operation: fault if start <= call < stop else None


def at_random(seed: int, rate: float) -> Schedule:
    """Each call meets a fault with probability ``rate``; the same for the same seed.

    >>> at_random(1, 0.0)(0, "commit")
    """

    def schedule(call: int, operation: str) -> Fault | None:
        draw = random.Random(f"{seed} {call}")
        if draw.random() >= rate:
            return None
        choices: list[Fault] = [Fail(), Fail(applied=True)]
        if operation == "head":
            choices += [Stale(draw.randrange(1, 4))]
        if operation in ("read", "fetch"):
            choices += [Flip()]
        if operation == "commit":
            choices += [Late(draw.randrange(1, 9)), Twice()]
        return draw.choice(choices)

    return schedule


def faulty(
    lane: Lane, schedule: Schedule, *, sleep: Callable[[float], object] | None = None
) -> "FaultyLane":
    """``lane``, with the faults that ``schedule`` tells.

    Args:
        lane: the real one; several faulty ones may share it, one for each node.
        schedule: a fault by call number, or a function of call number and operation.
            A fault that makes no sense for an operation does nothing to it.
        sleep: called with the seconds of a `Slow` call; a test gives its fake clock.

    >>> from speedtronic.shell.lanes.memory import MemoryLane
    >>> real = MemoryLane()
    >>> lane = faulty(real, {0: Fail(applied=True)})
    >>> lane.commit({"a": b"1"}, parent=None)
    Traceback (most recent call last):
    speedtronic.errors.Unavailable: call 0 (commit): the answer was lost
    >>> real.read("a", lane.head())
    b'1'
    """
    return FaultyLane(lane, schedule, sleep)


class FaultyLane:
    """See `faulty`; ``calls`` counts the calls so far."""

    def __init__(
        self,
        lane: Lane,
        schedule: Schedule,
        sleep: Callable[[float], object] | None,
    ) -> None:
        self.calls = 0
        self._lane = lane
        self._schedule = schedule
        self._sleep = sleep
        self._lock = Lock()
        self._heads: deque[str | None] = deque(maxlen=_HEADS)
        self._late: list[tuple[int, Callable[[], str]]] = []

    def head(self) -> str | None:
        """See `Lane`."""
        _, fault = self._next("head", lambda: None)
        newest = self._lane.head()
        with self._lock:
            if not self._heads or self._heads[-1] != newest:
                self._heads.append(newest)
            if isinstance(fault, Stale):
                return self._heads[max(0, len(self._heads) - 1 - fault.back)]
        return newest

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        """See `Lane`."""
        self._next("names", lambda: None)
        return self._lane.names(prefix, revision)

    def read(self, name: str, revision: str) -> bytes:
        """See `Lane`."""
        _, fault = self._next("read", lambda: None)
        content = self._lane.read(name, revision)
        return _flipped(content) if isinstance(fault, Flip) else content

    def fetch(self, name: str, revision: str, path: Path) -> str:
        """See `Lane`."""
        _, fault = self._next("fetch", lambda: None)
        total = self._lane.fetch(name, revision, path)
        if not isinstance(fault, Flip):
            return total
        content = _flipped(path.read_bytes())
        with replacing(path) as file:
            file.write(content)
        return hashlib.sha256(content).hexdigest()

    def commit(
        self,
        adds: Mapping[str, Blob],
        deletes: Collection[str] = (),
        *,
        parent: Parent,
        message: str = "",
    ) -> str:
        """See `Lane`."""

        def send() -> str:
            return self._lane.commit(adds, deletes, parent=parent, message=message)

        number, fault = self._next("commit", send)
        if isinstance(fault, Late):
            kept = {
                name: content_of(blob) if isinstance(blob, Path) else blob
                for name, blob in adds.items()
            }

            def send_late() -> str:
                return self._lane.commit(kept, deletes, parent=parent, message=message)

            with self._lock:
                self._late.append((number + fault.calls, send_late))
            raise Unavailable(f"call {number} (commit): no answer")
        revision = send()
        if isinstance(fault, Twice):
            with suppress(LaneError):
                send()
        return revision

    def _next(
        self, operation: str, send: Callable[[], object]
    ) -> tuple[int, Fault | None]:
        """Number the call, carry out what is due, and fail if it is to fail."""
        with self._lock:
            number = self.calls
            self.calls += 1
            due = [late for when, late in self._late if when < number]
            self._late = [(when, late) for when, late in self._late if when >= number]
        for late in due:
            with suppress(LaneError):  # nobody waits for the answer any more
                late()
        fault = self._fault(number, operation)
        if isinstance(fault, Slow):
            if self._sleep is None:
                raise TypeError("a schedule with Slow needs faulty(..., sleep=...)")
            self._sleep(fault.seconds)
        if isinstance(fault, Fail):
            if fault.applied:
                with suppress(LaneError):  # its failure is an answer too
                    send()
                raise fault.error(f"call {number} ({operation}): the answer was lost")
            raise fault.error(f"call {number} ({operation}): failed on schedule")
        return number, fault

    def _fault(self, number: int, operation: str) -> Fault | None:
        if isinstance(self._schedule, Mapping):
            return self._schedule.get(number)
        return self._schedule(number, operation)


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    wrong = bytes(byte ^ 1 for byte in content[middle : middle + 1])
    return content[:middle] + wrong + content[middle + 1 :]


_: type[Lane] = FaultyLane
