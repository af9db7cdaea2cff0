"""Every lane behaves like a dict of dicts."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from speedtronic.errors import Conflict, Corrupt, Missing
from speedtronic.pure.blobname import collision
from speedtronic.shell.lanes.base import ANY, Blob, Copy, Lane
from speedtronic.shell.lanes.directory import DirectoryLane
from speedtronic.shell.lanes.faulty import faulty
from speedtronic.shell.lanes.memory import MemoryLane

KEEP = 3
NAMES = st.sampled_from(["a", "b", "b/c", "d/e", "d/f", "D/e"])
ADDS = st.dictionaries(NAMES, st.binary(max_size=4) | NAMES.map(Copy), max_size=3)
DELETES = st.lists(NAMES, max_size=2)


class LaneMachine(RuleBasedStateMachine):
    """A lane beside its model: every revision as a dict, and their order."""

    make: Callable[[Path], Lane]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.lane = type(self).make(Path(self.folder.name) / "lane")
        self.model: dict[str, dict[str, bytes]] = {}

    def teardown(self) -> None:
        self.folder.cleanup()

    def tree(self) -> dict[str, bytes]:
        return next(reversed(self.model.values()), {})

    def expected(
        self, adds: dict[str, Blob], deletes: list[str]
    ) -> dict[str, bytes] | type[Exception]:
        tree = self.tree()
        sources = {blob.name for blob in adds.values() if isinstance(blob, Copy)}
        if adds.keys() & set(deletes) or not (adds or deletes):
            return ValueError
        if (sources | set(deletes)) - tree.keys():
            return Missing
        result = {n: blob for n, blob in tree.items() if n not in deletes}
        result |= {
            n: tree[blob.name] if isinstance(blob, Copy) else blob  # type: ignore[misc]
            for n, blob in adds.items()
        }
        return Corrupt if collision(result) else result

    @rule(adds=ADDS, deletes=DELETES, parent=st.sampled_from(["head", "any"]))
    def commit(self, adds: dict[str, Blob], deletes: list[str], parent: str) -> None:
        expected = self.expected(adds, deletes)
        where = self.lane.head() if parent == "head" else ANY
        if isinstance(expected, dict):
            revision = self.lane.commit(adds, deletes, parent=where)
            assert revision not in self.model
            self.model[revision] = expected
        else:
            with pytest.raises(expected):
                self.lane.commit(adds, deletes, parent=where)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def commit_on_another_parent(self, data: st.DataObject) -> None:
        older = [None, *list(self.model)[:-1]]
        with pytest.raises(Conflict):
            self.lane.commit({"a": b"late"}, parent=data.draw(st.sampled_from(older)))

    @invariant()
    def the_head_is_the_newest(self) -> None:
        assert self.lane.head() == next(reversed(self.model), None)

    @invariant()
    def kept_revisions_read_back(self) -> None:
        for revision in list(self.model)[-KEEP:]:
            tree = self.model[revision]
            sizes = {name: len(blob) for name, blob in sorted(tree.items())}
            assert sizes == self.lane.names("", revision)
            assert tree == {name: self.lane.read(name, revision) for name in tree}


def machine(make: Callable[[Path], Lane]) -> type:
    """A test case of the machine for one kind of lane."""
    case = type("Machine", (LaneMachine,), {"make": staticmethod(make)}).TestCase
    case.settings = settings(settings.default, stateful_step_count=20)
    return case


TestMemory = machine(lambda path: MemoryLane(keep=KEEP))
TestDirectory = machine(lambda path: DirectoryLane.create(path, keep=KEEP))
TestFaulty = machine(lambda path: faulty(MemoryLane(keep=KEEP), {}))
