"""A lane behind a bad network: every fault that a request can meet.

The lane itself is the real one. A fault decides what becomes of a request and of its
answer; `late` holds requests whose sender gave up on them and which still arrive.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import define, field, frozen

from speedtronic.errors import Conflict, LaneError, Missing, Unavailable
from speedtronic.shell.lanes.base import ANY, Parent

Tree = dict[str, bytes]
Observe = Callable[[Tree, Tree, str], None]
MOST_LATE = 5
FAULTS = ("lost", "error", "late", "twice")


@frozen
class Request:
    """A commit on its way."""

    adds: Mapping[str, bytes]
    deletes: Collection[str]
    parent: Parent
    who: str


@define
class Network:
    """The lane, what is on its way to it, and who watches."""

    lane: Any
    observe: Observe
    revisions: list[str | None] = field(factory=lambda: [None])
    late: list[Request] = field(factory=list)
    tree: Tree = field(factory=dict)

    def apply(self, request: Request) -> str:
        """The server's side: the commit, seen by the observer the moment it is done."""
        revision: str = self.lane.commit(
            request.adds,
            request.deletes,
            parent=request.parent,
            message=request.who,
        )
        if revision != self.revisions[-1]:
            before, self.tree = self.tree, dict(self.tree)
            for name in request.deletes:
                del self.tree[name]
            self.tree.update(request.adds)
            self.revisions.append(revision)
            self.observe(before, self.tree, request.who)
        return revision

    def commit(self, request: Request, fault: str) -> str:
        """The client's side, where an answer may be missing or wrong."""
        if fault == "error":
            raise Unavailable("no answer")
        if fault == "late":
            self.late = [*self.late, request][-MOST_LATE:]
            raise Unavailable("no answer")
        revision = self.apply(request)
        if fault == "lost":
            raise Unavailable("no answer")
        if fault == "twice":
            self.late = [*self.late, request][-MOST_LATE:]
        return revision

    def deliver(self, which: int) -> None:
        """One of the late requests arrives."""
        if self.late:
            request = self.late.pop(which % len(self.late))
            try:
                self.apply(request)
            except (Conflict, Missing):
                pass

    def head(self, lag: int) -> str | None:
        """The head, or an older one from a server that lags."""
        if lag:
            return self.revisions[max(0, len(self.revisions) - 1 - lag)]
        head: str | None = self.lane.head()
        return head

    def squash(self) -> None:
        """History is dropped: revisions before the head vanish under readers."""
        self.lane.squash()


__all__ = ["ANY", "FAULTS", "LaneError", "Network", "Request"]
