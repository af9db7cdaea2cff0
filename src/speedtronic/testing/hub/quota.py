"""What the Hub limits, and a clock that a test can push.

A free account is known to have 128 commits an hour, and 1000 requests in five minutes
(5000 to ``/resolve``). No quota is on unless it is asked for.
"""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import attrs

from speedtronic.testing.hub.messages import Request, commit_quota, too_many

_HOUR = 3600.0
_WINDOW = 300.0


@attrs.frozen(kw_only=True)
class Limits:
    """What a client may do; None is without a limit."""

    commits_per_hour: int | None = None  # of one repository
    requests: int | None = None  # of one user to the API in five minutes
    resolves: int | None = None  # of one user to /resolve in five minutes
    storage_bytes: int | None = None  # of large files in a private repository
    regular_bytes: int = 10 * 2**20  # a larger file must be in LFS
    folder_files: int = 10_000
    commit_lock_s: float | None = None  # meanwhile another commit there gets a 409
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


class Quotas:
    """Counts what was used of the limits.

    Commits are counted by repository in any hour; requests by user and kind in fixed
    windows of five minutes. An attempt that failed is a request, but no commit.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._commits: dict[str, deque[float]] = {}
        self._requests: dict[tuple[str | None, str], tuple[int, int]] = {}
        self._lock = Lock()

    def count_request(self, request: Request) -> dict[str, str]:
        """Take one from a user's requests; the headers that tell what is left.

        Raises:
            Refused: 429 with the same headers, none was left.
        """
        resolves = request.endpoint.startswith("resolve-")
        bucket = "resolvers" if resolves else "api"
        most = self._limits.resolves if resolves else self._limits.requests
        if most is None:
            return {}
        now = self._clock.now()
        window = int(now // _WINDOW)
        key = (request.user, bucket)
        with self._lock:
            last, used = self._requests.get(key, (window, 0))
            used = used + 1 if last == window else 1
            self._requests[key] = (window, used)
        reset = int((window + 1) * _WINDOW - now) + 1
        headers = {
            "RateLimit": f'"{bucket}";r={max(0, most - used)};t={reset}',
            "RateLimit-Policy": f'"fixed window";"{bucket}";q={most};w={int(_WINDOW)}',
        }
        if used > most:
            raise too_many(headers)
        return headers

    @contextmanager
    def commit(self, repository: str) -> Iterator[None]:
        """Take one from a repository's commits, if what is inside succeeds.

        Raises:
            Refused: 429 whose text says how long to wait.
        """
        most = self._limits.commits_per_hour
        with self._lock:
            now = self._clock.now()
            taken = self._commits.setdefault(repository, deque())
            while taken and taken[0] <= now - _HOUR:
                taken.popleft()
            if most is not None and len(taken) >= most:
                minutes = int((taken[0] + _HOUR - now) / 60) + 1
                wait = "about 1 hour" if minutes > 55 else f"{minutes} minutes"
                raise commit_quota(wait, most)
        yield
        if most is not None:
            with self._lock:
                taken.append(now)
