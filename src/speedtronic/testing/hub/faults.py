"""The switchboard: which request meets which fault.

Two ways, alone or together: `Faults.inject` puts a fault in the way of the next
requests that match, and `Faults.schedule` draws faults at random, the same ones for
the same seed and request number. What each kind does is in `kinds`.
"""

import random
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from threading import Lock
from typing import Any

import attrs

from speedtronic.testing.hub.kinds import KINDS, RANDOM, Fault

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


class Faults:
    """Faults in waiting; see the module.

    >>> faults = Faults()
    >>> faults.inject("busy", times=2, after=1)
    >>> [faults.next(number, "commit") is None for number in range(4)]
    [True, False, False, True]
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._seed = 0
        self._rate = 0.0
        self._kinds: tuple[str, ...] = ()
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
        if kind not in KINDS:
            raise ValueError(f"fault {kind!r}: expected one of {', '.join(KINDS)}")
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

        The same seed gives request number n the same draw. ``kinds`` are by default
        those that pass, not those that need a person.
        """
        with self._lock:
            self._seed, self._rate, self._kinds = seed, rate, tuple(kinds)

    def clear(self) -> None:
        """No faults any more."""
        with self._lock:
            self._waiting.clear()
            self._rate = 0.0

    def next(
        self,
        number: int,
        endpoint: str,
        parts: Mapping[str, str] = {},
        user: str | None = None,
    ) -> Fault | None:
        """What request ``number`` meets, if anything; a fault is used up by it."""
        repository, path = parts.get("repository", ""), parts.get("path", "")
        with self._lock:
            for waiting in self._waiting:
                places = any(fnmatchcase(endpoint, place) for place in waiting.where)
                if not (
                    places
                    and fnmatchcase(repository, waiting.repository)
                    and fnmatchcase(path, waiting.path)
                    and fnmatchcase(user or "", waiting.user)
                ):
                    continue
                if waiting.after > 0:
                    waiting.after -= 1
                    continue
                if waiting.times is not None:
                    waiting.times -= 1
                    if waiting.times == 0:
                        self._waiting.remove(waiting)
                return waiting.fault
            return self._drawn(number, endpoint)

    def _drawn(self, number: int, endpoint: str) -> Fault | None:
        draw = random.Random(f"{self._seed} {number}")
        if draw.random() >= self._rate:
            return None
        fitting = [
            kind
            for kind in self._kinds
            if any(fnmatchcase(endpoint, place) for place in KINDS[kind].where)
        ]
        if not fitting:
            return None
        kind = draw.choice(fitting)
        return Fault(kind, KINDS[kind].options)
