"""Repeat the rounds of a run from its lane, and compare bits with what was published.

Nothing but the lane is needed: manifests, the deltas that counted, and an anchor, that
is, weights and momentum of some earlier round. Everything is read at one revision. In
memory are model and momentum; files lie in a temporary folder, one round at a time.

After a round that does not verify nothing behind it can be compared, until an anchor
whose bytes are those that its manifest names: there the comparison goes on.

With a rule of one's own the same deltas tell what would have become of the run. Then
nothing is compared, and where published weights are at hand their distance is told.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from speedtronic.errors import ConfigError, Corrupt, Damaged
from speedtronic.pure.aggregate import Aggregator
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule, OuterState
from speedtronic.pure.round import names
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import File, Manifest
from speedtronic.pure.round.roster import changes
from speedtronic.pure.round.rule import from_numbers, origin_of
from speedtronic.pure.tree import evolve, zeros_like
from speedtronic.shell.aggregate_files import outer_step_from_files
from speedtronic.shell.distributed.compare_files import compare
from speedtronic.shell.distributed.files import (
    read_global,
    read_renamed,
    write_global,
    write_weights,
)
from speedtronic.shell.distributed.kept_delta import fetch_delta
from speedtronic.shell.distributed.recording import (
    Link,
    Recording,
    open_recording,
    walk,
)
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.modes import FOLDER


@attrs.frozen(kw_only=True)
class RoundReport:
    """What came of one round."""

    round: int
    anchor: bool = False  # its files were read, not computed
    deltas: int = 0
    steps: int = 0  # inner steps in its deltas
    tokens: int = 0
    verified: bool = False  # what is published is what its deltas give, bit for bit
    problem: str = ""  # why not, one line
    distance: float | None = None  # with a rule of one's own, from published weights
    roster: tuple[str, ...] = ()  # what changed in it since the round before


Progress = Callable[[RoundReport, int], None]


@attrs.frozen(kw_only=True, eq=False)
class Replayed:
    """What came of a replay."""

    rounds: tuple[RoundReport, ...]  # the anchor that it began at is the first
    state: OuterState | None  # after the last round; None if that cannot be computed
    renamed: Mapping[str, str]  # names in published files that are not the model's own

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not any(report.problem for report in self.rounds)


def replay(
    lane: Lane,
    *,
    first: int | None = None,
    last: int | None = None,
    aggregator: Aggregator | None = None,
    outer: OuterRule | None = None,
    owner: str | None = None,
    work: Path | None = None,
    progress: Progress = lambda report, last: None,
) -> Replayed:
    """Compute rounds ``first`` to ``last`` again.

    Args:
        lane: of the run.
        first: begin at the newest anchor before this round, or at this round if it is
            the oldest anchor; None begins at the oldest anchor.
        last: None means the newest round.
        aggregator: use this instead of the run's own.
        outer: use this instead of the run's own.
        owner: public key of the run's owner; None believes the newest manifest.
        work: a folder for temporary files, the system's by default. It needs room for
            the deltas of one round and four times the model with its momentum.
        progress: is called with each report, and with the last round.

    Raises:
        ConfigError: there is no run, or these rounds are not kept; with those that are.
        Corrupt: the newest manifest is not one.
        LaneError: the lane does not answer, or has dropped the revision.
        StorageError: a temporary file cannot be written.

    >>> from speedtronic.shell.lanes import parse_lane
    >>> from speedtronic.testing.runs import recorded_run
    >>> lane = parse_lane("memory:")
    >>> _ = recorded_run(lane, rounds=3)
    >>> [(report.round, report.verified) for report in replay(lane).rounds]
    [(0, True), (1, True), (2, True), (3, True)]
    >>> replay(lane, last=7)
    Traceback (most recent call last):
    speedtronic.errors.ConfigError: round 7 is not there yet: the run is at round 3
    """
    recording = open_recording(lane, owner)
    begin, end = _span(recording, first, last)
    reports = []
    with tempfile.TemporaryDirectory(prefix="speedtronic-replay-", dir=work) as folder:
        run = _Replay(recording, Path(folder) / "round", aggregator, outer)
        for link in walk(recording, end):
            if link.round >= begin:
                reports.append(run.take(link))
                progress(reports[-1], end)
    return Replayed(rounds=tuple(reports), state=run.state, renamed=run.renamed)


def _span(recording: Recording, first: int | None, last: int | None) -> tuple[int, int]:
    """The anchor to begin at, and the last round."""
    newest, anchors = recording.head.round, recording.anchors
    end = newest if last is None else last
    if max(end, first or 0) > newest:
        late = max(end, first or 0)
        raise ConfigError(
            f"round {late} is not there yet: the run is at round {newest}"
        )
    if first is not None and first > end:
        raise ConfigError(
            f"expected the first round before the last, found {first} and {end}"
        )
    before = [anchor for anchor in anchors if first is not None and anchor < first]
    begin = max(before, default=min(anchors))
    known = begin if first is None else first
    if begin > known or (begin >= end and newest > 0):
        rows = [f"{a} to {b}" for a, b in recording.replayable()]
        kept = f"rounds {', '.join(rows)}" if rows else "no round"
        asked = end if first is None else first
        raise ConfigError(f"round {asked} is not kept for replay; {kept} can be")
    return begin, end


@attrs.frozen
class _Published:
    """A file that a round published, as far as it is at hand."""

    path: Path
    problem: str  # empty if it has the bytes that the manifest names


class _Replay:
    """Goes through the rounds one by one, holding the model."""

    def __init__(
        self,
        recording: Recording,
        folder: Path,
        aggregator: Aggregator | None,
        outer: OuterRule | None,
    ) -> None:
        self.state: OuterState | None = None
        self.renamed: Mapping[str, str] = {}
        self._recording, self._folder = recording, folder
        self._aggregator, self._outer = aggregator, outer
        self._own = not (aggregator is None and outer is None)
        self._old: Manifest | None = None
        self._failed: int | None = None  # since then the state is not the published one

    def take(self, link: Link) -> RoundReport:
        """The next round."""
        self._folder.mkdir(FOLDER)
        before, after = (m.roster if m else None for m in (self._old, link.manifest))
        told = tuple(changes(before, after)) if self._old and link.manifest else ()
        try:
            return attrs.evolve(self._take(link), roster=told)
        finally:
            self._old = link.manifest
            shutil.rmtree(self._folder)

    def _take(self, link: Link) -> RoundReport:
        manifest = link.manifest
        if manifest is None or link.problem:
            self._fail(link.round)
            return RoundReport(round=link.round, problem=link.problem)
        if self.state is not None and self._old is not None:
            return self._repeat(self.state, self._old, manifest)
        published = self._fetch(manifest)
        if self._failed is not None:
            told = self._go_on(manifest, [_follows(self._failed)], published)
            return self._report(manifest, told)
        told = self._load(manifest, published)
        if told:
            self._fail(link.round)
        return attrs.evolve(self._report(manifest, told), anchor=True, deltas=0)

    def _repeat(self, state: OuterState, old: Manifest, new: Manifest) -> RoundReport:
        files: dict[Origin, Path] = {}
        headers: list[Header] = []
        told: list[str] = []
        for name in new.accepted:
            path, base = self._folder / name.stream, state.weights
            try:
                header = fetch_delta(self._recording, name, old, new, base, path)
            except Corrupt as error:
                told.append(f"delta {name.seq} of {name.node}: {error}")
            else:
                headers.append(header)
                files[origin_of(header, new.round)] = path
        try:
            state = state if told else self._fold(state, new, files)
        except (Corrupt, Damaged, ValueError) as error:
            told = [str(error)]
        published = self._fetch(new)
        if told:
            self._fail(new.round)
            return self._report(new, self._go_on(new, told, published), headers)
        self.state = state
        if self._own:
            report = self._report(new, [], headers)
            return self._measure(state, report, published.get(names.WEIGHTS))
        made = write_global(self._folder, state, self.renamed)
        return self._report(new, self._compare(new, made, published), headers)

    def _fold(
        self, state: OuterState, manifest: Manifest, files: Mapping[Origin, Path]
    ) -> OuterState:
        rule = from_numbers(manifest.outer)
        aggregator, outer = self._aggregator or rule.aggregator, self._outer
        return outer_step_from_files(state, files, aggregator, outer or rule.outer)[0]

    def _compare(
        self,
        manifest: Manifest,
        made: tuple[File, File],
        published: Mapping[str, _Published],
    ) -> list[str]:
        """What is wrong with the files that were published, or with those made."""
        told = []
        wanted = manifest.weights, manifest.momentum
        for mine, file in zip(made, wanted, strict=True):
            there = published.get(file.name)
            if there and (there.problem or mine != file):
                what = there.problem or f"{file.name} is not what was published"
                told.append(f"{what}{_apart(there.path, self._folder / file.name)}")
            elif mine != file and self._failed is None:
                told.append(
                    f"{file.name} has sha256 {mine.sha256[:16]}..., the manifest says "
                    f"{file.sha256[:16]}...; what was published is not kept, so no "
                    "tensor can be named"
                )
        if made == wanted:
            self._failed = None
            return told
        if self._failed is not None:
            told.insert(0, _follows(self._failed))
        self._failed = manifest.round if self._failed is None else self._failed
        sound = not any(file.problem for file in published.values())
        return self._go_on(manifest, told, published) if sound else told

    def _measure(
        self, state: OuterState, report: RoundReport, published: _Published | None
    ) -> RoundReport:
        """How far a rule of one's own has led, where that can be told."""
        if published is None or published.problem:
            return attrs.evolve(report, problem=published.problem if published else "")
        path = self._folder / names.WEIGHTS
        write_weights(path, state.weights, self.renamed)
        return attrs.evolve(report, distance=compare(published.path, path).norm)

    def _go_on(
        self, manifest: Manifest, told: list[str], published: Mapping[str, _Published]
    ) -> list[str]:
        """Take up what a round published, if it is at hand; ``told``, and that."""
        if self._own or not published:
            return told
        wrong = self._load(manifest, published)
        return [*told, *(wrong or ["the comparison goes on from its published files"])]

    def _load(
        self, manifest: Manifest, published: Mapping[str, _Published]
    ) -> list[str]:
        """Take up published files, or say why not."""
        self.state = None  # before there are two models in memory
        told = [file.problem for file in published.values() if file.problem]
        if told:
            return told
        weights, momentum = (
            published[name].path for name in (names.WEIGHTS, names.MOMENTUM)
        )
        try:
            self.renamed = read_renamed(weights)
            state = read_global(weights, momentum, manifest.round)
        except Damaged as error:
            return [str(error).replace(f"{self._folder}/", "")]
        if self._outer and bool(self._outer.momentum) != bool(state.momentum):
            params = state.weights.params
            fresh = zeros_like(params) if self._outer.momentum else {}
            state = evolve(state, momentum=fresh)
        self.state, self._failed = state, None
        return []

    def _fetch(self, manifest: Manifest) -> dict[str, _Published]:
        """The files that a round published; nothing if they are not at hand."""
        places = self._recording.published(manifest.round)
        found = {}
        for file in (manifest.weights, manifest.momentum) if places else ():
            place = places.get(file.name, names.kept(manifest.round, file.name))
            path = self._folder / f"published-{file.name}"
            try:
                same = self._recording.fetch(place, path) == file.sha256
                told = "" if same else f"{place} has other bytes than the manifest says"
            except Corrupt as error:
                told = str(error)
            found[file.name] = _Published(path, told)
        return found

    def _fail(self, round: int) -> None:
        self.state = None
        self._failed = round if self._failed is None else self._failed

    def _report(
        self, manifest: Manifest, told: list[str], headers: Sequence[Header] = ()
    ) -> RoundReport:
        return RoundReport(
            round=manifest.round,
            deltas=len(manifest.accepted),
            steps=sum(header.inner_steps for header in headers),
            tokens=sum(header.tokens for header in headers),
            verified=not told and not self._own,
            problem="; ".join(told),
        )


def _follows(failed: int) -> str:
    return f"it follows round {failed}, which did not verify"


def _apart(published: Path, replayed: Path) -> str:
    """Where two files that should be the same are not; the end of a line."""
    if not published.exists():
        return ""
    try:
        first = compare(published, replayed).first
    except Damaged:
        return ": it is not a whole safetensors file"
    return f": {first or 'its tensors are right, what is around them is not'}"
