"""Which revision is the newest, as well as that can be known.

The cheap question (a HEAD, see `Client.metadata`) may be answered from a cache that
lags. An answer that is known to be old, or that a commit was just refused on, is
asked for again at the list of branches. If that is no newer, the newest revision that
this process ever saw is taken, unless the Hub refused a commit on it: then somebody
moved the branch back, and the Hub is believed.
"""

from collections import deque
from threading import Lock

import attrs

from speedtronic.shell.lanes.hub.client import BRANCH, Client
from speedtronic.shell.lanes.hub.tree import MARKER
from speedtronic.shell.lanes.hub.trouble import Failed, Trouble

_KNOWN = 64  # revisions


@attrs.frozen
class Head:
    """The newest revision."""

    revision: str
    marked: bool  # whether a lane ever committed to it


class Heads:
    """What is known of the head of one repository; safe between threads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: deque[str] = deque(maxlen=_KNOWN)  # oldest first
        self._doubted: str | None = None
        self._lock = Lock()

    def newest(self) -> Head:
        """The head, by one request in most cases.

        Raises:
            Failed: it is not known.
        """
        with self._lock:
            before = self._known[-1] if self._known else None
        revision, etag = self._client.metadata(MARKER, BRANCH)
        if revision is None or self._is_old(revision):
            revision = self._not_older(self.listed())
            _, etag = self._client.metadata(MARKER, revision)
        self._saw(revision, before)
        return Head(revision, etag is not None)

    def listed(self) -> str:
        """The head by the list of branches."""
        branches, _ = self._client.get(self._client.address("/refs"))
        for branch in branches["branches"]:
            if branch["name"] == BRANCH:
                return str(branch["targetCommit"])
        raise Failed(Trouble("transient", f"the repository has no branch {BRANCH!r}"))

    def is_superseded(self, revision: str) -> bool:
        """Whether a newer one was seen."""
        with self._lock:
            return revision in self._known and revision != self._known[-1]

    def committed(self, revision: str, base: str) -> None:
        """``revision`` was made on top of ``base``, or of what followed on it."""
        with self._lock:
            if self._known and base == self._known[-1]:
                self._known.append(revision)

    def doubt(self, revision: str) -> None:
        """A commit on this one was refused, or it is gone."""
        with self._lock:
            self._doubted = revision

    def _is_old(self, revision: str) -> bool:
        return self.is_superseded(revision) or revision == self._doubted

    def _not_older(self, listed: str) -> str:
        with self._lock:
            if listed in self._known and self._known[-1] != self._doubted:
                return self._known[-1]
        return listed

    def _saw(self, revision: str, before: str | None) -> None:
        """The head was ``revision`` after a moment when ``before`` was the newest."""
        with self._lock:
            self._doubted = None
            newest = self._known[-1] if self._known else None
            if revision == newest or newest != before:
                return  # nothing new, or nobody knows which of the two is newer
            if revision in self._known:
                self._known.clear()  # the branch was moved back
            self._known.append(revision)
