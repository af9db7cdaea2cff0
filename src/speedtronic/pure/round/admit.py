"""Which deltas count in a round, and why not the others.

Three things can happen to a delta besides counting. It is *refused*: the ledger
moves on and its writer is told whether the content may come again. It *waits*: the
round is full. Or it is *garbage*: no leader could ever accept it, so it is deleted
and not remembered. Whether a delta is garbage depends on the manifest and on its
header alone, hence it is the same for every leader.

In a signed run a delta that the key of its node did not sign is garbage: a refusal
would move the ledger of a stream whose node never sent it.

What is known of a payload comes in as facts. Nothing here reads a tensor.
"""

from typing import Literal

import attrs

from speedtronic.pure.origin import middle
from speedtronic.pure.round.backoff import share
from speedtronic.pure.round.header import Header, disagreement
from speedtronic.pure.round.ledger import decide, room
from speedtronic.pure.round.manifest import MAX_REASON, Manifest, Refusal, Register
from speedtronic.pure.round.names import DeltaName
from speedtronic.pure.round.standing import aside

MAX_OVERHEAD_BYTES = 2**20  # of a delta's file: header, names, shapes


@attrs.frozen(kw_only=True)
class Facts:
    """What a reader found in a payload."""

    payload: str  # sha256 of the bytes that were read
    payload_bytes: int
    finite: bool = True
    mismatch: str = ""  # names, shapes or dtypes that differ from the model's
    norm: float = 0.0  # 2-norm of the delta, added up in a fixed order
    signed_by: str = ""  # the public key whose signature it has, if that is right
    objection: str = ""  # a rule of this leader that it breaks, in words
    harm: str = ""  # that this leader saw it do on held-out data, in words


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


@attrs.frozen(kw_only=True)
class Usual:
    """What the deltas of several nodes are like."""

    norm: float  # their median
    steps: float  # the median of the inner steps in them


def admit(
    manifest: Manifest,
    candidates: tuple[Candidate, ...],
    bounds: Bounds,
    needed: int = 1,
) -> Decisions:
    """Decide what a round on top of ``manifest`` does with what lies on the lane.

    At most one delta per stream counts, the newest cut, and one per node, so that no
    node is heard more than another. If the round cannot take all, the streams that have
    waited longest go first: serving them by name would starve the last ones. A node
    that is set aside waits, unless the others are fewer than a round needs: else a run
    of few nodes would wait for the end of a term that only rounds can bring.

    Args:
        manifest: that the round stands on.
        candidates: what lies on the lane.
        bounds: of this leader.
        needed: deltas without which there is no round.
    """
    garbage: list[Broken] = []
    newest: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda c: c.name):
        told = disagreement(candidate.header, candidate.name)
        told = told or inadmissible(manifest, candidate.header)
        told = told or unsigned(manifest, candidate.header, candidate.facts.signed_by)
        if told:
            garbage.append(Broken(candidate.name, told))
        else:  # sorted by name, so a later cut of a stream replaces an earlier one
            newest[candidate.name.stream] = candidate
    served = sorted(newest.values(), key=lambda c: turn(manifest, c.name))
    refused: list[tuple[Candidate, Refusal]] = []
    ready: list[Candidate] = []
    waiting: list[Candidate] = []
    left, most = room(manifest), manifest.limits.per_round
    heard = [c for c in served if not _aside(manifest, c)]
    usual = _usual(heard, bounds)
    for candidate in [*heard, *(c for c in served if _aside(manifest, c))]:
        node = candidate.name.node
        if len(ready) >= needed and _aside(manifest, candidate):
            waiting.append(candidate)
            continue
        limit = norm_limit(manifest, candidate.header, bounds, usual)
        refusal = refuse(candidate, attrs.evolve(bounds, norm=limit))
        if refusal is not None:
            if len(refused) < left:
                refused.append((candidate, refusal))
        elif len(ready) < most and all(node != c.name.node for c in ready):
            ready.append(candidate)
        else:
            waiting.append(candidate)
    return Decisions(
        accepted=tuple(sorted(ready, key=lambda c: c.name)),
        refused=tuple(refused),
        waiting=tuple(waiting),
        garbage=tuple(garbage),
    )


def _aside(manifest: Manifest, candidate: Candidate) -> bool:
    node = candidate.name.node
    return aside(manifest.standings, node, manifest.round + 1) is not None


def norm_limit(
    manifest: Manifest, header: Header, bounds: Bounds, usual: Usual | None
) -> float:
    """The largest norm that a delta of a node may have.

    Args:
        manifest: whose limits and roster hold.
        header: of the delta.
        bounds: of this leader.
        usual: what deltas at hand are like; None if there are too few.
    """
    limits, roster = manifest.limits, manifest.roster
    member = roster.member(header.node) if roster else None
    found = [bounds.norm]
    if limits.max_norm:
        found.append(limits.max_norm)
    if limits.norm_ratio and usual is not None:
        more = max(1.0, header.inner_steps / max(1.0, usual.steps))
        found.append(limits.norm_ratio * usual.norm * more)
    if member and member.max_norm is not None:
        found.append(member.max_norm)
    return min(found)


def _usual(candidates: list[Candidate], bounds: Bounds) -> Usual | None:
    """Of what could count, one delta per node; of two nothing can be said."""
    of_node: dict[str, Candidate] = {}
    for c in candidates:
        if refuse(c, bounds) is None:
            of_node.setdefault(c.name.node, c)
    found = of_node.values()
    if len(found) < 3:
        return None
    return Usual(
        norm=middle([c.facts.norm for c in found]),
        steps=middle([c.header.inner_steps for c in found]),
    )


def unsigned(manifest: Manifest, header: Header, signed_by: str) -> str:
    """Why the roster does not let a delta in, in words; empty if it does."""
    if manifest.roster is None:
        return ""
    member = manifest.roster.member(header.node)
    if member is None:
        return f"node {header.node} is not in the roster"
    if member.key != signed_by:
        return f"it is not signed by the key of node {header.node}"
    return ""


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
        (bool(facts.harm), "drop", facts.harm),
        (bool(facts.objection), "retry", facts.objection),
    )
    for holds, verdict, reason in rules:
        if holds:
            return Refusal(candidate.name, verdict, _printable(reason))
    return None


def _printable(reason: str) -> str:
    clean = "".join(c if c.isprintable() else "?" for c in reason)
    return clean[:MAX_REASON]
