"""Which deltas count in a round, and why not the others.

Three things can happen to a delta besides counting. It is *refused*: the ledger
moves on and its writer is told whether the content may come again. It *waits*: the
round is full. Or it is *garbage*: no leader could ever accept it, so it is deleted
and not remembered. Whether a delta is garbage depends on the manifest and on its
header alone, hence it is the same for every leader.

What is known of a payload comes in as facts. Nothing here reads a tensor.
"""

from typing import Literal

import attrs

from speedtronic.pure.round.backoff import share
from speedtronic.pure.round.header import Header, disagreement
from speedtronic.pure.round.ledger import decide, room
from speedtronic.pure.round.manifest import MAX_REASON, Manifest, Refusal, Register
from speedtronic.pure.round.names import DeltaName

MAX_OVERHEAD_BYTES = 2**20  # of a delta's file: header, names, shapes


@attrs.frozen(kw_only=True)
class Facts:
    """What a reader found in a payload."""

    payload: str  # sha256 of the bytes that were read
    payload_bytes: int
    finite: bool = True
    mismatch: str = ""  # names, shapes or dtypes that differ from the model's
    norm: float = 0.0  # 2-norm of the delta, added up in a fixed order
    objection: str = ""  # a rule of this leader that it breaks, in words


@attrs.frozen(kw_only=True)
class Candidate:
    """A delta that lies on the lane."""

    name: DeltaName
    header: Header
    facts: Facts


@attrs.frozen
class Broken:
    """A file under a delta's name that is not a delta, and why."""

    name: DeltaName
    reason: str


@attrs.frozen(kw_only=True)
class Bounds:
    """How large a delta may be."""

    payload_bytes: int
    norm: float = float("inf")

    @property
    def file_bytes(self) -> int:
        """What a delta's whole file may measure, before it is downloaded."""
        return self.payload_bytes + MAX_OVERHEAD_BYTES


@attrs.frozen(kw_only=True)
class Decisions:
    """What one look at the lane led to."""

    accepted: tuple[Candidate, ...] = ()  # in aggregation order
    refused: tuple[tuple[Candidate, Refusal], ...] = ()
    waiting: tuple[Candidate, ...] = ()  # in the order in which they are served
    garbage: tuple[Broken, ...] = ()

    def accepted_registers(self, manifest: Manifest) -> tuple[Register, ...]:
        """The ledger's new registers of what counts."""
        return tuple(decide(manifest, c.header, "accepted") for c in self.accepted)

    def refused_registers(
        self, manifest: Manifest
    ) -> tuple[tuple[Register, Refusal], ...]:
        """The ledger's new registers of what is refused, each with its reason."""
        return tuple(
            (decide(manifest, c.header, r.verdict), r) for c, r in self.refused
        )


def admit(
    manifest: Manifest, candidates: tuple[Candidate, ...], bounds: Bounds
) -> Decisions:
    """Decide what a round on top of ``manifest`` does with what lies on the lane.

    At most one delta per stream counts, the newest cut. If the round cannot take all,
    the streams that have waited longest go first: serving them by name would starve
    the last ones.
    """
    garbage: list[Broken] = []
    newest: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda c: c.name):
        told = disagreement(candidate.header, candidate.name)
        told = told or inadmissible(manifest, candidate.header)
        if told:
            garbage.append(Broken(candidate.name, told))
        else:  # sorted by name, so a later cut of a stream replaces an earlier one
            newest[candidate.name.stream] = candidate
    served = sorted(newest.values(), key=lambda c: turn(manifest, c.name))
    refused: list[tuple[Candidate, Refusal]] = []
    ready: list[Candidate] = []
    left = room(manifest)
    for candidate in served:
        refusal = refuse(candidate, bounds)
        if refusal is None:
            ready.append(candidate)
        elif len(refused) < left:
            refused.append((candidate, refusal))
    most = manifest.limits.per_round
    return Decisions(
        accepted=tuple(sorted(ready[:most], key=lambda c: c.name)),
        refused=tuple(refused),
        waiting=tuple(ready[most:]),
        garbage=tuple(garbage),
    )


def inadmissible(manifest: Manifest, header: Header) -> str:
    """Why no leader can ever accept a delta, in words; empty if one could."""
    if header.run != manifest.run:
        return f"it belongs to run {header.run}, this is run {manifest.run}"
    if header.lineage != manifest.lineage:
        return f"it was made with another config, lineage {header.lineage}"
    behind = manifest.round - header.base_round
    if behind < 0:
        return f"base round {header.base_round} is ahead of round {manifest.round}"
    if behind > manifest.limits.staleness:
        most = manifest.limits.staleness
        return f"stale: {behind} rounds behind, at most {most} count"
    if header.base_id != manifest.recent_id(header.base_round):
        return f"base {header.base_id} is not round {header.base_round} of this run"
    register = manifest.register(header.stream)
    decided = register.decided if register else None
    if header.id == decided:
        return "repeated: it was decided before"
    if header.after != decided:
        return f"it follows {header.after}, its stream is at {decided}"
    return ""


def turn(manifest: Manifest, name: DeltaName) -> tuple[int, float, int]:
    """A key that puts the streams first that have waited longest, newest cuts first.

    Those that have waited equally long take turns by lot, the same for every leader:
    by name, the first one would be served twice as often as the last.
    """
    register = manifest.register(name.stream)
    lot = share(f"{manifest.round_id}/{name.stream}")
    return (register.round if register else -1, lot, -name.seq)


def refuse(candidate: Candidate, bounds: Bounds) -> Refusal | None:
    """The refusal of an admissible delta, or None if it is fit to count.

    ``drop`` is for content that must never be sent again; after ``retry`` the same
    work may come in another delta.
    """
    header, facts = candidate.header, candidate.facts
    announced = (header.payload, header.payload_bytes)
    size = max(facts.payload_bytes, header.payload_bytes)
    rules: tuple[tuple[bool, Literal["drop", "retry"], str], ...] = (
        # First of all: other bytes than announced say nothing of the writer's work.
        (
            announced != (facts.payload, facts.payload_bytes),
            "retry",
            f"bad hash: payload {facts.payload}, the header says {header.payload}",
        ),
        (not facts.finite, "drop", f"not finite after {header.inner_steps} steps"),
        (bool(facts.mismatch), "drop", facts.mismatch),
        (
            size > bounds.payload_bytes,
            "drop",
            f"too large: {size} bytes, at most {bounds.payload_bytes} count",
        ),
        (
            not facts.norm <= bounds.norm,
            "drop",
            f"too large: norm {facts.norm:.6g}, at most {bounds.norm:.6g} count",
        ),
        (bool(facts.objection), "retry", facts.objection),
    )
    for holds, verdict, reason in rules:
        if holds:
            return Refusal(candidate.name, verdict, _printable(reason))
    return None


def _printable(reason: str) -> str:
    clean = "".join(c if c.isprintable() else "?" for c in reason)
    return clean[:MAX_REASON]
