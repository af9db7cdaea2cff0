"""A run as its lane records it: one revision, and the manifests of its kept rounds.

Everything is read at the revision that was the head when it was opened, so a run that
goes on meanwhile changes nothing. What was written by others is checked here as far as
manifests go; tensors are read by `speedtronic.shell.distributed.replay`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import attrs

from speedtronic.errors import ConfigError, Corrupt, Denied, Missing, Unavailable
from speedtronic.pure.round import audit, names
from speedtronic.pure.round.manifest import MAX_MANIFEST_BYTES, Manifest
from speedtronic.shell.distributed.trust import Trust
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.base import Lane

T = TypeVar("T")


@attrs.frozen(kw_only=True, eq=False)
class Recording:
    """One revision of the lane of a run; see `open_recording`."""

    lane: Lane
    revision: str
    sizes: Mapping[str, int]  # bytes, of every name at that revision
    trust: Trust = attrs.field(factory=Trust)  # whose word counts

    @cached_property
    def head(self) -> Manifest:
        """The newest manifest."""
        return self._manifest(names.MANIFEST, kept=False)

    @cached_property
    def rounds(self) -> frozenset[int]:
        """The rounds whose manifest is kept."""
        found = {names.kept_round(name) for name in self.sizes}
        manifests = {
            round
            for round in found
            if round is not None and names.kept(round, names.MANIFEST) in self.sizes
        }
        return frozenset(manifests)

    @cached_property
    def anchors(self) -> frozenset[int]:
        """The kept rounds that a replay can begin at."""
        whole = {r for r in self.rounds if len(self.published(r)) == 2}
        return frozenset(whole | {self.head.round})

    def published(self, round: int) -> dict[str, str]:
        """Where weights and momentum of a round lie, as far as they are there."""
        files = (names.WEIGHTS, names.MOMENTUM)
        if round == self.head.round:
            return {name: name for name in files}
        places = {name: names.kept(round, name) for name in files}
        return {name: place for name, place in places.items() if place in self.sizes}

    def replayable(self) -> tuple[tuple[int, int], ...]:
        """Which rounds can be computed again, as (first, last)."""
        reached = {round for round in self.rounds if round <= self.head.round}
        return audit.spans(reached, set(self.anchors))

    def manifest(self, round: int) -> Manifest:
        """The kept manifest of a round.

        Raises:
            Corrupt: it is not one.
        """
        return self._manifest(names.kept(round, names.MANIFEST), kept=True)

    def fetch(self, name: str, path: Path) -> str:
        """Copy a blob to the file ``path``; return its sha256.

        Raises:
            Corrupt: it is not there, or has other bytes than were committed.
            Missing: the revision is no longer kept.
            LaneError: the lane does not answer.
        """
        return self._read(name, lambda: self.lane.fetch(name, self.revision, path))

    def _manifest(self, name: str, *, kept: bool) -> Manifest:
        size = self.sizes.get(name, 0)
        if size > MAX_MANIFEST_BYTES:
            raise Corrupt(
                f"{name}: expected at most {MAX_MANIFEST_BYTES} bytes, found {size}"
            )
        data = self._read(name, lambda: self.lane.read(name, self.revision))
        return self.trust.manifest(data, name, kept=kept)

    def _read(self, name: str, how: Callable[[], T]) -> T:
        if name not in self.sizes:
            raise Corrupt(f"{name} is not there")
        try:
            return how()
        except Missing:
            raise Missing(
                f"revision {self.revision} is no longer kept: the run went on while "
                "it was read; read it again, fewer rounds at a time or from a copy "
                "of the lane"
            ) from None


@attrs.frozen(kw_only=True)
class Link:
    """A kept round, and why it cannot stand where it stands; empty when it can."""

    round: int
    manifest: Manifest | None  # None if there is none that can be read
    problem: str


def lane_of_a_run(text: str) -> Lane:
    """Open the lane that a command line names; see `parse_lane`.

    Raises:
        ConfigError: there is none.
    """
    try:
        return parse_lane(text)
    except (Unavailable, Denied) as error:
        raise ConfigError(str(error)) from error


def owner_of(text: str | None) -> str | None:
    """The public key of an owner that a command line names.

    Raises:
        ConfigError: it is none.

    >>> owner_of("a" * 64) == "a" * 64
    True
    """
    if text is not None and not re.fullmatch(names.KEY, text, re.ASCII):
        raise ConfigError(f"--owner: expected 64 lower-case hex digits, found {text!r}")
    return text


def open_recording(lane: Lane, owner: str | None = None) -> Recording:
    """What the lane holds now.

    Args:
        lane: of a run.
        owner: the public key of the run's owner; None believes the newest manifest.

    Raises:
        ConfigError: it holds no run.
        Corrupt: its manifest is not one.
        LaneError: it does not answer.
    """
    revision = lane.head()
    sizes = lane.names("", revision) if revision is not None else {}
    if revision is None or names.MANIFEST not in sizes:
        raise ConfigError(f"the lane holds no run: it has no {names.MANIFEST}")
    trust = Trust(owner)
    found = Recording(lane=lane, revision=revision, sizes=sizes, trust=trust)
    _ = found.head  # read now, so that nothing else has to expect that it is none
    return found


def walk(recording: Recording, last: int) -> Iterator[Link]:
    """The kept rounds from the oldest up to ``last``, each checked with those before.

    A row of rounds that are not kept is one link, with the number of the first.
    """
    head, rounds = recording.head, recording.rounds
    if not rounds:
        yield Link(round=head.round, manifest=head, problem="")
        return
    counted: dict[str, int] = {}
    old: Manifest | None = None
    expected = min(rounds)
    for round in sorted({*(r for r in rounds if r <= last), last + 1}):
        if round > expected:
            yield _gap(expected, round - 1)
        expected = round + 1
        if round > last:
            break
        try:
            manifest = recording.manifest(round)
        except Corrupt as error:
            yield Link(round=round, manifest=None, problem=str(error))
            continue
        told = audit.alone(manifest, round)
        told = told or (audit.apart(old, manifest) if old else "")
        told = told or audit.repeated(counted, manifest.accepted)
        if round == head.round:
            told = told or _head_problem(manifest, head)
        yield Link(round=round, manifest=manifest, problem=told)
        if not told:  # what is wrong itself says nothing of those behind it
            old = manifest
            marks = (m for name in manifest.accepted for m in audit.marks(name))
            counted |= dict.fromkeys(marks, round)
    ahead = [round for round in rounds if round > head.round]
    if ahead and last >= head.round:
        told = f"it is kept, but the run is at round {head.round}"
        yield Link(round=min(ahead), manifest=None, problem=told)


def _gap(first: int, last: int) -> Link:
    told = "its manifest is not kept"
    if last > first:
        told = f"the manifests of rounds {first} to {last} are not kept"
    return Link(round=first, manifest=None, problem=told)


def _head_problem(kept: Manifest, head: Manifest) -> str:
    if head.serial == kept.serial:
        return "" if head == kept else f"{names.MANIFEST} is not the one kept of it"
    told = audit.apart(kept, head)
    return f"{names.MANIFEST}: {told}" if told else ""
