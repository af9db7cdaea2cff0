"""The switchboard: which request meets which fault.

Two ways, alone or together: `Faults.inject` puts a fault in the way of the next
requests that match, and `Faults.schedule` draws faults at random, the same ones for
the same seed. What each kind does is in `kinds`.
"""

import random
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from itertools import count
from threading import Lock
from typing import Any

import attrs

from speedtronic.testing.hub.kinds import KINDS, RANDOM, Fault
from speedtronic.testing.hub.messages import Request

FOREVER = None
"""As the ``times`` of a fault: until `Faults.clear`."""


@attrs.define
class _Waiting:
    fault: Fault
    where: tuple[str, ...]
    repository: str
    path: str
    user: str
    after: int
    times: int | None

    def matches(self, request: Request) -> bool:
        parts = request.parts
        return (
            _among(request.endpoint, self.where)
            and fnmatchcase(parts.get("repository", ""), self.repository)
            and fnmatchcase(parts.get("path", ""), self.path)
            and fnmatchcase(request.user or "", self.user)
        )


class Faults:
    """Faults in waiting; see the module.

    >>> faults = Faults()
    >>> faults.inject("busy", times=2, after=1)
    >>> faults.inject("bussy")
    Traceback (most recent call last):
    ValueError: fault 'bussy': expected one of busy, conflict, rate-limit, ...
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._seed = 0
        self._rate = 0.0
        self._kinds: tuple[str, ...] = ()
        self._drawn_for = count()  # the requests since the schedule
        self._lock = Lock()

    def inject(
        self,
        kind: str,
        times: int | None = 1,
        where: str | Collection[str] | None = None,
        after: int = 0,
        *,
        repository: str = "*",
        path: str = "*",
        user: str = "*",
        **options: Any,
    ) -> None:
        """Put a fault in the way of requests.

        Faults in waiting are tried in the order in which they were injected; a request
        meets one at most.

        Args:
            kind: a name in ``KINDS``.
            times: how many requests meet it; None for all.
            where: endpoints, as patterns such as ``resolve-*``; by default those that
                the kind makes sense for.
            after: how many requests that match are left alone first.
            repository: a pattern for ``owner/name``.
            path: a pattern for the file asked for, where the address names one.
            user: a pattern for the user.
            options: of the kind, such as ``seconds`` of a stall.

        Raises:
            ValueError: no such kind or option.
        """
        _check(kind)
        known = KINDS[kind].options
        if not options.keys() <= known.keys():
            found = ", ".join(sorted(options.keys() - known.keys()))
            expected = ", ".join(known) or "none"
            raise ValueError(
                f"fault {kind!r}: unknown {found}; its options: {expected}"
            )
        if where is None:
            where = KINDS[kind].where
        places = (where,) if isinstance(where, str) else tuple(where)
        fault = Fault(kind, {**known, **options})
        waiting = _Waiting(fault, places, repository, path, user, after, times)
        with self._lock:
            self._waiting.append(waiting)

    def schedule(self, seed: int, rate: float, kinds: Collection[str] = RANDOM) -> None:
        """Let each request meet a fault with probability ``rate``; 0 ends it.

        The same seed gives the n-th request from now on the same draw, whatever came
        before. ``kinds`` are by default those that pass, not those that need a person.
        """
        for kind in kinds:
            _check(kind)
        with self._lock:
            self._seed, self._rate, self._kinds = seed, rate, tuple(kinds)
            self._drawn_for = count()

    def clear(self) -> None:
        """No faults any more."""
        with self._lock:
            self._waiting.clear()
            self._rate = 0.0

    def next(self, request: Request) -> Fault | None:
        """What a request meets, if anything; that is used up by it."""
        with self._lock:
            for waiting in self._waiting:
                if not waiting.matches(request):
                    continue
                if waiting.after > 0:
                    waiting.after -= 1
                    continue
                if waiting.times is not None:
                    waiting.times -= 1
                    if waiting.times == 0:
                        self._waiting.remove(waiting)
                return waiting.fault
            return self._drawn(request)

    def _drawn(self, request: Request) -> Fault | None:
        if not self._rate:
            return None
        draw = random.Random(f"{self._seed} {next(self._drawn_for)}")
        if draw.random() >= self._rate:
            return None
        fitting = [k for k in self._kinds if _among(request.endpoint, KINDS[k].where)]
        if not fitting:
            return None
        kind = draw.choice(fitting)
        return Fault(kind, KINDS[kind].options)


def _among(endpoint: str, places: Iterable[str]) -> bool:
    return any(fnmatchcase(endpoint, place) for place in places)


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"fault {kind!r}: expected one of {', '.join(KINDS)}")
