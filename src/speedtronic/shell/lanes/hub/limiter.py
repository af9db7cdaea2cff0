"""No more commits than the hourly budget allows, spread over the hour.

Nothing sleeps here: who comes too early is told how long to wait, and by then has more
to put into one commit. Nothing is written down either: a process that starts again
may spend its burst again, and if that was too much the Hub says so.
"""

import time
from collections.abc import Callable
from threading import Lock

from speedtronic.pure.budget import full, returned, taken


class CommitLimiter:
    """One budget for all lanes of a process; safe between threads.

    Args:
        per_hour: commits that this process may make in any hour.
        clock: monotonic seconds.

    >>> limiter = CommitLimiter(16.0, clock=lambda: 0.0)
    >>> [limiter.take() for _ in range(4)][-1] > 0
    True
    """

    def __init__(
        self, per_hour: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._lock = Lock()
        self._bucket = full(per_hour, clock())

    def take(self) -> float:
        """Count one commit, and return 0; or, if it is too early, seconds to wait."""
        with self._lock:
            self._bucket, wait_s = taken(self._bucket, self._clock())
            return wait_s

    def give_back(self) -> None:
        """The last one was not made."""
        with self._lock:
            self._bucket = returned(self._bucket)
