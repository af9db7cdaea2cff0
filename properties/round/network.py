"""The real lane, watched, and the faults that a schedule puts before it.

Every node reaches the lane through a faulty one of its own, so one node can be cut
off while others are not, and a request that its sender gave up on can arrive later.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from attrs import define, field

from speedtronic.pure.round.events import Effect, Look, Publish, Upload
from speedtronic.shell.lanes.base import Blob, Lane, Parent
from speedtronic.shell.lanes.faulty import (
    Fail,
    Fault,
    FaultyLane,
    Flip,
    Late,
    Stale,
    Twice,
    faulty,
)

Tree = dict[str, bytes]
# What can go wrong, and with which of the calls that an effect makes.
ON_LOOKS: tuple[tuple[int, Fault], ...] = (
    (0, Fail()),
    (0, Stale(1)),
    (0, Stale(2)),
    (0, Stale(4)),
    (1, Fail()),
    (2, Flip()),
)
ON_READS: tuple[tuple[int, Fault], ...] = ((0, Fail()), (0, Flip()), (1, Flip()))
ON_COMMITS: tuple[tuple[int, Fault], ...] = (
    (0, Fail()),
    (0, Fail(applied=True)),
    (0, Late(2)),
    (0, Late(9)),
    (0, Late(25)),
    (0, Twice()),
)
REVISIONS_KEPT = 6


@define
class Watched:
    """A lane that shows every commit to an observer at the moment it is applied."""

    lane: Lane
    observe: Callable[[Tree, Tree, str], None]
    tree: Tree = field(factory=dict)

    def head(self) -> str | None:
        """See `Lane`."""
        return self.lane.head()

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        """See `Lane`."""
        return self.lane.names(prefix, revision)

    def read(self, name: str, revision: str) -> bytes:
        """See `Lane`."""
        return self.lane.read(name, revision)

    def fetch(self, name: str, revision: str, path: Path) -> str:
        """See `Lane`."""
        return self.lane.fetch(name, revision, path)

    def commit(
        self,
        adds: Mapping[str, Blob],
        deletes: Collection[str] = (),
        *,
        parent: Parent,
        message: str = "",
    ) -> str:
        """See `Lane`."""
        revision = self.lane.commit(adds, deletes, parent=parent, message=message)
        before, after = self.tree, dict(self.tree)
        for name in deletes:
            del after[name]
        after |= {name: self.lane.read(name, revision) for name in adds}
        self.tree = after
        self.observe(before, after, message)
        return revision

    def drop_history(self) -> None:
        """Older revisions vanish under whoever reads them; the content stays."""
        for _ in range(REVISIONS_KEPT):
            self.commit({"README.md": b"a run"}, parent=self.head())


@define
class Link:
    """One node's way to the lane, and what goes wrong there next."""

    lane: FaultyLane
    planned: dict[int, Fault]
    cut_off: bool = False

    @classmethod
    def to(cls, lane: Lane) -> "Link":
        """A way on which nothing goes wrong yet."""
        planned: dict[int, Fault] = {}
        link: Link

        def schedule(call: int, _: str) -> Fault | None:
            return Fail() if link.cut_off else planned.get(call)

        link = cls(faulty(lane, schedule), planned)
        return link

    def plan(self, effect: Effect, how: int) -> None:
        """Let a third of the effects meet a fault in one of their calls."""
        self.planned.clear()
        if how % 3 == 0:
            kinds = ON_READS
            if isinstance(effect, Look):
                kinds = ON_LOOKS
            elif isinstance(effect, Upload | Publish):
                kinds = ON_COMMITS
            call, fault = kinds[how // 3 % len(kinds)]
            self.planned[self.lane.calls + call] = fault
