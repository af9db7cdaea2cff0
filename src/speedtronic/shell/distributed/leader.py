"""A leader's effects on a lane: read deltas, take the outer step, publish.

Called in background threads, one call of a kind at a time. Nothing here decides, and
nothing of it is missed when it is lost: every file can be fetched or made again.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import attrs

from speedtronic.errors import Corrupt, Damaged, LaneError, Missing
from speedtronic.pure.aggregate import mean
from speedtronic.pure.blobname import obstacles
from speedtronic.pure.card import MAX_CARD_BYTES
from speedtronic.pure.delta import Delta, Weights, non_finite
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterState
from speedtronic.pure.round import names
from speedtronic.pure.round.admit import Broken, Candidate, Facts
from speedtronic.pure.round.events import Fold, Folded, Inspect, Publish, Suspected
from speedtronic.pure.round.guard import culprits, rises
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import File, Manifest
from speedtronic.pure.round.names import DeltaName
from speedtronic.pure.round.rule import RoundRule, clipped, from_numbers, origin_of
from speedtronic.shell.aggregate_files import outer_step_from_files
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.fetched import fetch_checked
from speedtronic.shell.distributed.files import (
    most_bytes,
    read_global,
    read_header,
    write_global,
)
from speedtronic.shell.distributed.trust import signed_manifest, signer_of
from speedtronic.shell.keys import Key
from speedtronic.shell.lanes.base import Blob, Copy, Lane
from speedtronic.shell.modes import FOLDER


@attrs.frozen(kw_only=True)
class Made:
    """A round that is about to be published."""

    manifest: Manifest
    headers: tuple[Header, ...] = ()  # of the deltas that count in it
    card: bytes | None = None  # the README of the round before


class Judge(Protocol):
    """Says how good a global model is; see `speedtronic.shell.distributed.guard`."""

    bound: float

    def loss(self, weights: Weights) -> float:
        """Nats per target, on held-out data."""


class Round(NamedTuple):
    """What an outer step made."""

    weights: File
    momentum: File
    clipped: tuple[DeltaName, ...]  # deltas that the rule made much smaller


class Harm(NamedTuple):
    """Why a round is not published, and by whose deltas."""

    names: tuple[DeltaName, ...]
    reason: str
    certain: bool = True  # false where nothing tells them apart


def folded(made: Round | Harm, now_s: float) -> Folded | Suspected:
    """What a master is told of a fold."""
    if isinstance(made, Harm):
        return Suspected(now_s, *made)
    return Folded(now_s, *made)


MUCH = 4.0  # times the length to which a rule cuts: no honest work is that long
Beside = Callable[[Made], Mapping[str, bytes]]


class Leader:
    """Performs the effects of a `master`.

    Args:
        lane: of the run.
        folder: for files on their way; it is this process's own.
        likes: the model, on the meta device.
        renamed: names in the published file that differ from the model's own.
        beside: what else a round is published with, for people and their tools.
        key: to sign manifests with, in a signed run.
        guard: judges a round before it is published.
    """

    def __init__(
        self,
        lane: Lane,
        folder: Path,
        likes: Weights,
        renamed: Mapping[str, str],
        beside: Beside = lambda made: {},
        key: Key | None = None,
        guard: Judge | None = None,
    ) -> None:
        self._lane, self._folder, self._likes = lane, folder, likes
        self._renamed, self._beside, self._key = renamed, beside, key
        self._guard = guard
        self._judged: tuple[str, float] = ("", math.nan)  # newest global, its loss
        self._made: dict[str, Path] = {}  # by sha256
        self._count = 0
        self._card: bytes | None = None  # of the round that was folded on
        self._headers: dict[str, Header] = {}  # by id, of that fold

    def make(self, state: OuterState) -> tuple[File, File]:
        """Write a global model here, to be published later.

        Raises:
            StorageError: it cannot be written.
        """
        self._count += 1
        folder = self._folder / f"made-{self._count}"
        folder.mkdir(FOLDER)
        files = write_global(folder, state, self._renamed)
        self._made |= {file.sha256: folder / file.name for file in files}
        return files

    def inspect(
        self, effect: Inspect, held: Collection[DeltaName]
    ) -> tuple[tuple[Candidate, ...], tuple[Broken, ...]]:
        """Download deltas and say what is in them.

        Args:
            effect: which ones.
            held: deltas read before whose files may be needed still.

        Raises:
            LaneError: the lane does not answer.
        """
        self._drop_deltas({name.id for name in held})
        candidates: list[Candidate] = []
        broken: list[Broken] = []
        for name in effect.names:
            try:
                candidates.append(self._read(name, effect.revision))
            except Missing:
                continue  # decided by somebody else meanwhile
            except (Corrupt, Damaged) as error:
                broken.append(Broken(name, str(error)))
        return tuple(candidates), tuple(broken)

    def fold(self, effect: Fold) -> Round | Harm:
        """Take the outer step and keep what it made, unless it would do harm.

        Raises:
            LaneError: a file cannot be had, or has changed.
            StorageError: the result cannot be written.
        """
        manifest = effect.manifest
        rule = from_numbers(manifest.outer)
        deltas = self._deltas(effect, effect.accepted)
        weights = self._file(manifest.weights, effect.revision)
        momentum = self._file(manifest.momentum, effect.revision)
        try:
            state = read_global(weights, momentum, manifest.round)
            before = self._loss_before(manifest.weights, state)
            after, _ = outer_step_from_files(state, deltas, rule.aggregator, rule.outer)
            harm = self._harm(before, after, effect, rule, (weights, momentum))
        except (Damaged, ValueError) as error:
            raise Corrupt(f"round {manifest.round + 1}: {error}") from error
        if harm is not None:
            return harm
        self._card = self._readme(effect.revision)
        self._headers = {c.name.id: c.header for c in effect.accepted}
        files = self.make(after)
        self._drop_made({manifest.weights, manifest.momentum, *files})
        names = {origin_of(c.header, manifest.round + 1): c for c in effect.accepted}
        norms = [names[origin].facts.norm for origin in names]
        short = clipped(rule, list(names), norms, times=MUCH)
        return Round(*files, tuple(names[origin].name for origin in short))

    def _loss_before(self, file: File, state: OuterState) -> float:
        """The held-out loss of the present global model."""
        if self._guard is None:
            return math.nan
        if self._judged[0] != file.sha256:
            self._judged = (file.sha256, self._guard.loss(state.weights))
        return self._judged[1]

    def _harm(
        self,
        before: float,
        after: OuterState,
        effect: Fold,
        rule: RoundRule,
        files: tuple[Path, Path],
    ) -> Harm | None:
        """Which deltas make a round worse than the guard allows; None if it does not.

        Each half is tried by itself, by the rule of the run if it is enough for that,
        else by the mean.
        """
        if non_finite(Delta(params=after.weights.params, buffers={})):
            largest = max(effect.accepted, key=lambda c: c.facts.norm)
            return Harm((largest.name,), "harmful: with it the model is not finite")
        guard = self._guard
        if guard is None:
            return None
        loss = guard.loss(after.weights)
        if not rises(before, loss, guard.bound):
            return None
        manifest = effect.manifest

        def harmful(part: Sequence[Candidate]) -> bool:
            deltas = self._deltas(effect, part)
            state = read_global(*files, manifest.round)
            how = rule.aggregator if len(deltas) >= rule.least else mean()
            tried, _ = outer_step_from_files(state, deltas, how, rule.outer)
            return rises(before, guard.loss(tried.weights), guard.bound)

        blamed = culprits(effect.accepted, harmful, 2 * len(effect.accepted))
        reason = (
            f"harmful: with it the held-out loss goes from {before:.4g} to {loss:.4g}"
        )
        certain = len(blamed) < len(effect.accepted) or len(blamed) == 1
        return Harm(tuple(c.name for c in blamed), reason, certain)

    def publish(self, effect: Publish) -> None:
        """Commit a manifest and what belongs to it.

        Raises:
            LaneError: it is not there, or nobody knows.
        """
        manifest = effect.manifest
        adds: dict[str, Blob] = {}
        if effect.fresh:
            ids = [name.id for name in manifest.accepted]
            headers = tuple(self._headers[i] for i in ids if i in self._headers)
            made = Made(manifest=manifest, headers=headers, card=self._card)
            adds |= self._beside(made)
        adds |= dict.fromkeys(effect.names, signed_manifest(manifest, self._key))
        if effect.fresh:
            for file in (manifest.weights, manifest.momentum):
                if file.sha256 not in self._made:
                    raise LaneError(f"{file.name} of round {manifest.round} is gone")
                adds[file.name] = self._made[file.sha256]
        if effect.restores and effect.parent is not None:
            for file in (manifest.weights, manifest.momentum):
                adds[file.name] = self._file(file, effect.parent)
        adds |= {new: self._kept(old) for old, new in effect.copies}
        line = f"round {manifest.round}, serial {manifest.serial}"
        deletes = (*effect.deletes, *self._obstacles(adds, effect))
        self._lane.commit(adds, deletes, parent=effect.parent, message=line)

    def _kept(self, name: str) -> Blob:
        """A delta that counted: the file that was judged, not what lies there now."""
        try:
            path = self._path(names.parse_delta(name))
        except ValueError:
            return Copy(name)
        return path if path.exists() else Copy(name)

    def _obstacles(self, adds: Mapping[str, Blob], effect: Publish) -> list[str]:
        """Names on the lane that nobody of the run made, and that are in the way."""
        if effect.parent is None:
            return []
        listing = self._lane.names("", effect.parent)
        gone = {*effect.deletes, *adds}
        return [name for name in obstacles(listing, adds) if name not in gone]

    def _read(self, name: DeltaName, revision: str) -> Candidate:
        path = self._path(name)
        if not path.exists():
            self._lane.fetch(name.path, revision, path)
        with open_delta(path) as file:
            header = read_header(file)
            signer = signer_of(file, header)
            found = file.inspect(self._likes)
        facts = Facts(
            payload=found.payload,
            payload_bytes=found.payload_bytes,
            finite=found.finite,
            mismatch="; ".join(found.mismatch),
            norm=found.norm,
            signed_by=signer,
        )
        return Candidate(name=name, header=header, facts=facts)

    def _deltas(
        self, effect: Fold, candidates: Sequence[Candidate]
    ) -> dict[Origin, Path]:
        """Their files, by whose work they are."""
        round = effect.manifest.round + 1
        return {
            origin_of(c.header, round): self._delta(c, effect.revision)
            for c in candidates
        }

    def _delta(self, candidate: Candidate, revision: str) -> Path:
        """The file of a delta as it was judged."""
        path = self._path(candidate.name)
        if not path.exists() and self._read(candidate.name, revision) != candidate:
            path.unlink()
            raise Corrupt(f"{candidate.name.path}: other bytes than were judged")
        return path

    def _file(self, file: File, revision: str) -> Path:
        """A file of the global model that ``revision`` holds."""
        if file.sha256 not in self._made:
            self._count += 1
            folder = self._folder / f"made-{self._count}"
            folder.mkdir(FOLDER)
            most = most_bytes(self._likes)
            fetch_checked(self._lane, file, revision, folder / file.name, most)
            self._made[file.sha256] = folder / file.name
        return self._made[file.sha256]

    def _readme(self, revision: str) -> bytes | None:
        """The card, unless there is none or it is none; nobody depends on it."""
        size = self._lane.names(names.README, revision).get(names.README)
        if size is None or size > MAX_CARD_BYTES:
            return None
        try:
            return self._lane.read(names.README, revision)
        except (Missing, Corrupt):
            return None

    def _path(self, name: DeltaName) -> Path:
        return self._folder / f"{name.id}.safetensors"

    def _drop_deltas(self, kept: set[str]) -> None:
        for path in self._folder.glob("*.safetensors"):
            if path.stem not in kept:
                path.unlink(missing_ok=True)

    def _drop_made(self, kept: set[File]) -> None:
        sums = {file.sha256 for file in kept}
        for gone in self._made.keys() - sums:
            path = self._made.pop(gone)
            path.unlink(missing_ok=True)
            if not any(path.parent.iterdir()):
                path.parent.rmdir()
