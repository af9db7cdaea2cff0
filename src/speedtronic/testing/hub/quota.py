"""What the Hub limits, and a clock that a test can push.

Numbers are those of a free account as far as they are known: 128 commits an hour and
1000 requests in five minutes (5000 to ``/resolve``). No limit is on unless asked for.
"""

import time
from collections import deque
from threading import Lock

import attrs


@attrs.frozen(kw_only=True)
class Limits:
    """What a client may do; None is without a limit."""

    commits_per_hour: int | None = None  # of one repository
    requests: int | None = None  # of one user to the API in five minutes
    resolves: int | None = None  # of one user to /resolve in five minutes
    storage_bytes: int | None = None  # of large files in a private repository
    regular_bytes: int = 10 * 2**20  # a larger file must be in LFS
    folder_files: int = 10_000
    page_entries: int = 1000  # of a listing
    squash_grace_s: float = 36 * 3600.0  # storage is released so long after a squash


class Clock:
    """The time of day, moved on at will.

    >>> clock = Clock()
    >>> before = clock.now()
    >>> clock.advance(600)
    >>> 600 <= clock.now() - before < 660
    True
    """

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Let time pass without waiting for it."""
        self._ahead += seconds


class Rolling:
    """At most ``most`` in any ``seconds``.

    >>> rolling = Rolling(2, 10.0)
    >>> [rolling.take(now) for now in (0.0, 1.0, 2.0, 10.0)]
    [None, None, 8.0, None]
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._taken: deque[float] = deque()
        self._lock = Lock()

    def take(self, now: float) -> float | None:
        """Count one; or, if that is one too many, how many seconds to wait."""
        with self._lock:
            while self._taken and self._taken[0] <= now - self._seconds:
                self._taken.popleft()
            if len(self._taken) < self._most:
                self._taken.append(now)
                return None
            return (
                self._taken[0] + self._seconds - now if self._taken else self._seconds
            )


class Window:
    """At most ``most`` in each fixed stretch of ``seconds``.

    >>> window = Window(1, 300.0)
    >>> window.take(10.0), window.take(20.0), window.take(310.0)
    ((0, 290.0), (-1, 280.0), (0, 290.0))
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self._seconds = seconds
        self._current = -1
        self._left = most
        self._lock = Lock()

    def take(self, now: float) -> tuple[int, float]:
        """Count one; what is left (-1: that was too many) and seconds to the next."""
        with self._lock:
            current = int(now // self._seconds)
            if current != self._current:
                self._current, self._left = current, self.most
            self._left = max(-1, self._left - 1)
            return self._left, (current + 1) * self._seconds - now
