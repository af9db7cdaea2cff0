"""What was asked and answered, in bounded memory. Tokens are never in it."""

from collections import Counter, deque
from collections.abc import Mapping
from threading import Lock

import attrs

_KEPT = 10_000  # requests that are remembered one by one


@attrs.frozen
class Entry:
    """One request and its answer."""

    number: int  # from 0, in the order of arrival
    method: str
    target: str  # path and query
    endpoint: str
    user: str | None
    status: int  # 0: the connection was closed without an answer
    fault: str | None  # the kind that was injected
    seconds: float  # until the answer was ready, latency included

    def text(self) -> str:
        """One line for people.

        >>> Entry(3, "GET", "/api/whoami-v2", "whoami", "me", 200, None, 0.25).text()
        '3 me GET /api/whoami-v2 200 0.250s'
        """
        told = f" ({self.fault})" if self.fault else ""
        line = f"{self.number} {self.user or '-'} {self.method} {self.target}"
        return f"{line} {self.status or 'dropped'} {self.seconds:.3f}s{told}"


@attrs.frozen
class Counts:
    """All requests so far, counted."""

    requests: Mapping[tuple[str, int], int]  # by endpoint and status
    faults: Mapping[str, int]  # by kind

    def of(self, endpoint: str, status: int | None = None) -> int:
        """Requests to one endpoint, of one status or of all."""
        return sum(
            number
            for (name, code), number in self.requests.items()
            if name == endpoint and status in (None, code)
        )

    @property
    def total(self) -> int:
        """Requests in all."""
        return sum(self.requests.values())

    @property
    def commits(self) -> int:
        """Commits that were acknowledged."""
        return self.of("commit", 200)

    @property
    def conflicts(self) -> int:
        """Commits that lost a race (412)."""
        return self.of("commit", 412)


class Traffic:
    """Counts every request and remembers the last ten thousand."""

    def __init__(self) -> None:
        self._log: deque[Entry] = deque(maxlen=_KEPT)
        self._requests: Counter[tuple[str, int]] = Counter()
        self._faults: Counter[str] = Counter()
        self._lock = Lock()
        self._number = 0

    def next(self) -> int:
        """The number of a request that just came."""
        with self._lock:
            self._number += 1
            return self._number - 1

    def add(self, entry: Entry) -> None:
        """Take note of an answer."""
        with self._lock:
            self._log.append(entry)
            self._requests[entry.endpoint, entry.status] += 1
            if entry.fault:
                self._faults[entry.fault] += 1

    def log(self) -> list[Entry]:
        """The last requests, oldest first."""
        with self._lock:
            return list(self._log)

    def counts(self) -> Counts:
        """The sums so far."""
        with self._lock:
            return Counts(dict(self._requests), dict(self._faults))
