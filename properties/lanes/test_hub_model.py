"""The lane on the Hub against a dict, while requests and answers get lost.

Two writers look, commit and read in any order, and each request may meet a fault. The
emulator knows what really happened, so every answer of a lane can be held to it.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TypeAlias

import attrs
import pytest
from huggingface_hub import close_session, constants
from hypothesis import given, settings
from hypothesis import strategies as st

from speedtronic.errors import Conflict, Corrupt, Missing, Unavailable
from speedtronic.pure.config.base import Secret
from speedtronic.shell.lanes.base import ANY, Blob, Copy
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.shell.lanes.hub.tree import MARKER
from speedtronic.testing.hub import HubEmulator
from speedtronic.testing.hub.kinds import RANDOM

CASES = 1000
WRITERS = 2
BEGUN = {"a.json": b"0", "b.safetensors": b"1"}  # in most repositories, from the start
NAMES = st.sampled_from([*BEGUN, "c/d.safetensors"])
CONTENTS = st.sampled_from(
    [b"0", b"1", b"00", b""]
)  # few, so that often nothing changes
ADDS = st.dictionaries(NAMES, CONTENTS | CONTENTS | NAMES.map(Copy), max_size=2)
DELETES = st.lists(NAMES, max_size=1)
Tree: TypeAlias = dict[str, str]  # the sha256 of each name


@attrs.frozen
class Commit:
    """A writer commits on what it saw last, or on whatever is there."""

    writer: int
    adds: dict[str, Blob]
    deletes: list[str]
    swap: bool


@attrs.frozen
class Look:
    """A writer looks at the head and reads all of it."""

    writer: int


def commit(
    writer: int, adds: dict[str, Blob], deletes: list[str], swap: bool
) -> Commit:
    """One that a lane does not refuse for what it asks."""
    deletes = [name for name in deletes if name not in adds]
    return Commit(writer, adds if adds or deletes else {"a.json": b"1"}, deletes, swap)


WRITER = st.integers(0, WRITERS - 1)
COMMITS = st.builds(commit, WRITER, ADDS, DELETES, st.booleans())
STEPS = st.lists(COMMITS | st.builds(Look, WRITER), min_size=3, max_size=4)


class NoWait:
    """Time that passes at once."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float) -> bool:
        self.now_s += timeout
        return False

    def sleep(self, seconds: float) -> None:
        """For the client's own waits."""


class Case:
    """A new repository, its writers, and what they were told."""

    def __init__(self, hub: HubEmulator, name: str, folder: Path, begun: bool) -> None:
        self.hub = hub
        self.repo = hub.create_repo(name)
        start = self.repo.write({MARKER: b"{}", **BEGUN}, "begun") if begun else None
        time = NoWait()
        options = HubOptions(
            token=Secret(hub.token),
            endpoint=hub.endpoint,
            cache=folder,
            stop=time,
            clock=time,
        )
        self.lanes = [HubLane(name, options) for _ in range(WRITERS)]
        self.seen: list[str | None] = [start] * WRITERS
        self.time = time

    def play(self, steps: Sequence[Commit | Look]) -> None:
        """Take all steps, and hold every answer to what happened."""
        answers: dict[str, str | type[Exception]] = {}
        for number, step in enumerate(steps):
            if isinstance(step, Look):
                self.look(step.writer)
            else:
                answers[f"step {number}"] = self.commit(f"step {number}", step)
        if Unavailable in answers.values():
            self.come_to_rest()
        made = {commit.title: commit for commit in self.repo.history}
        assert len(made) == len(self.repo.history)  # nothing twice
        for title, answer in answers.items():
            if isinstance(answer, str):
                assert made[title].id == answer
            elif answer is not Unavailable:
                assert title not in made
            if title in made:
                step = steps[int(title.split()[1])]
                assert isinstance(step, Commit)
                self.check_effect(step, made[title].id, made[title].parent)

    def commit(self, title: str, step: Commit) -> str | type[Exception]:
        parent = self.seen[step.writer] if step.swap else ANY
        lane = self.lanes[step.writer]
        before = self.repo.head
        try:
            revision = lane.commit(
                step.adds, step.deletes, parent=parent, message=title
            )
        except (Conflict, Missing, Unavailable) as error:
            self.patience(error)
            return type(error)
        made = self.repo.at(revision)
        assert made.title == title
        if step.swap:  # a compare-and-swap: nobody came in between
            unmarked = MARKER not in self.repo.files(made.parent or "")
            assert (made.parent == parent) if parent else unmarked
        assert before != revision
        self.seen[step.writer] = revision
        return revision

    def check_effect(self, step: Commit, revision: str, parent: str | None) -> None:
        """A commit did what it was to do to its parent, and nothing else."""
        before = self.tree(parent or "")
        expected = {n: s for n, s in before.items() if n not in step.deletes}
        for name, blob in step.adds.items():
            assert not isinstance(blob, Path)
            expected[name] = (
                before[blob.name]
                if isinstance(blob, Copy)
                else hashlib.sha256(blob).hexdigest()
            )
        assert expected == self.tree(revision)

    def look(self, writer: int) -> None:
        lane = self.lanes[writer]
        try:
            head = lane.head()
            names = lane.names("", head) if head else {}
            read = {name: lane.read(name, head) for name in names} if head else {}
        except (Unavailable, Corrupt) as error:
            self.patience(error)
            return
        if head is None:
            assert MARKER not in self.repo.history[-1].files
        else:
            told = {name: hashlib.sha256(b).hexdigest() for name, b in read.items()}
            assert told == self.tree(head)
            assert names == {name: len(content) for name, content in read.items()}
        self.seen[writer] = head

    def tree(self, revision: str) -> Tree:
        files = self.repo.files(revision)
        return {n: f.sha256 for n, f in files.items() if not n.startswith(".")}

    def patience(self, error: Exception) -> None:
        """Wait as long as the Hub said."""
        self.time.now_s += getattr(error, "retry_after_s", None) or 0.0

    def come_to_rest(self) -> None:
        """Let everything arrive that is still on its way."""
        self.hub.faults.clear()
        self.time.now_s += 1000.0
        for _ in range(4):
            self.lanes[0].head()


@pytest.fixture(scope="module")
def hub() -> Iterator[HubEmulator]:
    with pytest.MonkeyPatch.context() as patch, HubEmulator() as running:
        patch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        patch.setattr("huggingface_hub.utils._http.time", NoWait())
        yield running
        close_session()


_numbers = count()
_cases = settings(max_examples=max(CASES, settings.default.max_examples))


RATES = st.sampled_from([0.1, 0.3])  # of the requests that a kind is for
KINDS = st.lists(st.sampled_from(RANDOM), min_size=1, max_size=3)  # few at a time


@_cases
@given(STEPS, st.integers(0, 3).map(bool), KINDS, st.integers(0, 2**16), RATES)
def test_no_update_is_lost_torn_or_doubled(
    hub: HubEmulator,
    steps: list[Commit | Look],
    begun: bool,
    kinds: list[str],
    seed: int,
    rate: float,
) -> None:
    """An answer says what happened, or that nobody knows."""
    with tempfile.TemporaryDirectory() as folder:
        hub.faults.clear()
        case = Case(hub, f"owner/case-{next(_numbers)}", Path(folder), begun)
        hub.faults.schedule(seed, rate, kinds)
        case.play(steps)
