"""Which manifest may follow which: making the next one, and checking the chain.

`genesis`, `taken_over` and `decided` are the only ways in which manifests come to be.
`breaks` says in words why one manifest cannot stand after another; a reader who walks
a run with it has checked every decision but the arithmetic.
"""

from typing import Any

import attrs

from speedtronic.pure.round import plain
from speedtronic.pure.round.ledger import advance
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import (
    File,
    Lease,
    Manifest,
    Refusal,
    Register,
    Scalar,
)
from speedtronic.pure.round.names import DeltaName
from speedtronic.pure.round.roster import Roster, newer
from speedtronic.pure.round.standing import Standing, judged


def round_id(
    previous: str | None,
    run: str,
    round: int,
    weights: File,
    momentum: File,
    accepted: tuple[DeltaName, ...],
) -> str:
    """The hash of what a round did, and of all rounds before it.

    Lease, ledger and refusals are left out: they change between two rounds, and a
    delta that was cut in the meantime would name a base that nobody knows any more.
    """
    return plain.digest(
        {
            "previous": previous,
            "run": run,
            "round": round,
            "weights": weights.sha256,
            "momentum": momentum.sha256,
            "accepted": [name.id for name in accepted],
        }
    )


def genesis(
    *,
    lineage: str,
    limits: Limits,
    outer: tuple[tuple[str, Scalar], ...],
    weights: File,
    momentum: File,
    node: str,
    life: str,
    nonce: str,
    roster: Roster | None = None,
) -> Manifest:
    """The first manifest of a run, whose maker holds the first lease."""
    run = run_id(lineage, weights, life, roster.owner if roster else None)
    first = round_id(None, run, 0, weights, momentum, ())
    return Manifest(
        previous=None,
        serial=0,
        run=run,
        lineage=lineage,
        limits=limits,
        outer=outer,
        round=0,
        round_id=first,
        recent=(first,),
        weights=weights,
        momentum=momentum,
        accepted=(),
        refused=(),
        ledger=(),
        lease=Lease(node=node, life=life, epoch=0, renewals=0),
        roster=roster,
        nonce=nonce,
    )


def run_id(lineage: str, weights: File, life: str, owner: str | None) -> str:
    """The name of a run; a life begins one at most, and another owner is another run.

    >>> run_id("1a" * 32, File("model.safetensors", "0" * 64, 8), "ab" * 8, None)
    '...'
    """
    return plain.digest([lineage, weights.sha256, life, owner])[:16]


def taken_over(
    old: Manifest, node: str, life: str, nonce: str, roster: Roster | None = None
) -> Manifest:
    """Another holder, one epoch later; nothing else changes, but perhaps the roster."""
    lease = Lease(node=node, life=life, epoch=old.lease.epoch + 1, renewals=0)
    kept = old.roster if roster is None else roster
    return _next(old, nonce, lease=lease, refused=(), roster=kept)


def enrolled(old: Manifest, roster: Roster, nonce: str) -> Manifest:
    """A newer roster; the holder stays, and nothing is decided."""
    return _next(old, nonce, lease=_again(old.lease), refused=(), roster=roster)


def released(old: Manifest, nonce: str) -> Manifest:
    """The holder gives the lease up; nothing else changes."""
    lease = attrs.evolve(_again(old.lease), released=True)
    return _next(old, nonce, lease=lease, refused=())


def decided(
    old: Manifest,
    accepted: tuple[Register, ...],
    refused: tuple[tuple[Register, Refusal], ...],
    nonce: str,
    files: tuple[File, File] | None,
    clipped: tuple[DeltaName, ...] = (),
) -> Manifest:
    """The decisions of a round, or refusals alone between two rounds.

    With neither it renews the lease: the holder is still there.

    Args:
        old: the manifest that they were decided on.
        accepted: the new registers of what counts, empty if nothing does.
        refused: new registers and reasons of what does not.
        nonce: of this attempt.
        files: new weights and momentum; None exactly if nothing was accepted.
        clipped: those of the accepted that the rule made smaller.
    """
    registers = (*accepted, *(register for register, _ in refused))
    changes: dict[str, Any] = {
        "lease": _again(old.lease),
        "refused": tuple(refusal for _, refusal in refused),
        "ledger": advance(old, registers, old.round + bool(accepted)),
    }
    if files is not None:
        names = tuple(sorted(_name(register) for register in accepted))
        new = round_id(old.round_id, old.run, old.round + 1, *files, names)
        changes |= {
            "round": old.round + 1,
            "round_id": new,
            "recent": _recent(old, new),
            "weights": files[0],
            "momentum": files[1],
            "accepted": names,
            "clipped": tuple(sorted(clipped)),
        }
    verdicts = tuple(refusal for _, refusal in refused)
    changes["standings"] = _standings(
        old, changes.get("accepted", ()), clipped, verdicts
    )
    return _next(old, nonce, **changes)


def breaks(old: Manifest, new: Manifest) -> str:
    """Why ``new`` cannot be the manifest after ``old``; empty when it can."""
    expected = [
        ("previous", old.id, new.previous),
        ("serial", old.serial + 1, new.serial),
        ("run", old.run, new.run),
        ("lineage", old.lineage, new.lineage),
        ("limits", old.limits, new.limits),
        ("outer", old.outer, new.outer),
    ]
    same = new.round == old.round
    if same:
        kept = ("round_id", "recent", "weights", "momentum", "accepted", "clipped")
        expected += [(k, getattr(old, k), getattr(new, k)) for k in kept]
    else:
        told = round_breaks(old, new)
        if told:
            return told
    for what, wanted, found in expected:
        if wanted != found:
            return f"serial {new.serial}: expected {what} {wanted}, found {found}"
    return (
        _lease_breaks(old, new) or _roster_breaks(old, new) or _ledger_breaks(old, new)
    )


def round_breaks(old: Manifest, new: Manifest) -> str:
    """Why ``new`` cannot be a manifest of the round after ``old``'s; empty if it can.

    Unlike `breaks` it asks nothing of the manifests between two rounds, which are
    not kept.
    """
    where = f"round {new.round}"
    if new.run != old.run or new.lineage != old.lineage:
        return f"{where}: expected run {old.run}, found run {new.run}"
    if new.round != old.round + 1:
        return f"{where}: expected round {old.round + 1}"
    wanted = round_id(
        old.round_id, old.run, new.round, new.weights, new.momentum, new.accepted
    )
    if new.round_id != wanted:
        return f"{where}: expected round id {wanted}, found {new.round_id}"
    if new.recent != _recent(old, wanted):
        return f"{where}: the recent rounds are not those before it"
    return ""


def differs(
    manifest: Manifest,
    *,
    lineage: str,
    run: str | None,
    serial: int,
    round: int,
    round_id: str | None,
) -> str:
    """Why a manifest is of another history than what a node knows; empty if it fits.

    Somebody restored or rewrote the lane, or it is another run's. Going on would mix
    two histories, so a node that finds this stops and names both.

    Args:
        manifest: as the lane has it now.
        lineage: of the node's config.
        run: the run that it belongs to, None before it has seen one.
        serial: of the newest manifest that it knows, -1 for none.
        round: its round.
        round_id: the id of that round.
    """
    if manifest.lineage != lineage:
        return (
            f"the lane holds a run of lineage {manifest.lineage}, this node's config "
            f"is lineage {lineage}"
        )
    if run not in (None, manifest.run):
        return f"the lane holds run {manifest.run}, this node belongs to {run}"
    if manifest.serial < serial or round_id is None:
        return ""
    if manifest.round < round:
        return f"the run went back from round {round} to round {manifest.round}"
    found = manifest.recent_id(round)
    if found not in (None, round_id):
        return f"round {round} was {round_id}, now it is {found}"
    return ""


def _next(old: Manifest, nonce: str, **changes: Any) -> Manifest:
    return attrs.evolve(
        old, previous=old.id, serial=old.serial + 1, nonce=nonce, **changes
    )


def _again(lease: Lease) -> Lease:
    return attrs.evolve(lease, renewals=lease.renewals + 1)


def _recent(old: Manifest, new: str) -> tuple[str, ...]:
    return (*old.recent, new)[-(old.limits.staleness + 1) :]


def _name(register: Register) -> DeltaName:
    return DeltaName(register.node, register.stream, register.seq, register.decided)


def _lease_breaks(old: Manifest, new: Manifest) -> str:
    where = f"serial {new.serial}"
    before, after = old.lease, new.lease
    same_holder = (before.node, before.life) == (after.node, after.life)
    if same_holder and after == _again(before) and not before.released:
        return ""
    given_up = attrs.evolve(_again(before), released=True)
    taken = after.epoch == before.epoch + 1 and not after.renewals
    if not taken and (after != given_up or before.released):
        return f"{where}: lease of epoch {after.epoch} after epoch {before.epoch}"
    if new.round != old.round or new.refused or new.ledger != old.ledger:
        return f"{where}: decided by {after.node}, who did not hold the lease"
    return ""


def _roster_breaks(old: Manifest, new: Manifest) -> str:
    where = f"serial {new.serial}"
    if new.roster == old.roster:
        return ""
    if told := roster_apart(old, new):
        return f"{where}: {told}"
    if new.round != old.round or new.refused or new.ledger != old.ledger:
        return f"{where}: the roster changes in the middle of a decision"
    return ""


def roster_apart(old: Manifest, new: Manifest) -> str:
    """Why the roster of a later manifest cannot follow that of an earlier one."""
    if new.roster == old.roster or newer(old.roster, new.roster):
        return ""
    had, has = (
        f"version {m.roster.version} of owner {m.roster.owner[:16]}"
        if m.roster
        else "none"
        for m in (old, new)
    )
    return f"the roster was {had}, here it is {has}"


def _standings(
    old: Manifest,
    accepted: tuple[DeltaName, ...],
    clipped: tuple[DeltaName, ...],
    refused: tuple[Refusal, ...],
) -> tuple[Standing, ...]:
    bad = {name.node: "clipped: larger than the others" for name in clipped}
    bad |= {r.name.node: r.reason for r in refused if r.verdict == "drop"}
    good = frozenset(name.node for name in accepted) - bad.keys()
    return judged(old.standings, old.round + 1, good, bad, old.limits)


def _ledger_breaks(old: Manifest, new: Manifest) -> str:
    where = f"serial {new.serial}"
    changed = [r for r in new.ledger if r != old.register(r.stream)]
    names = {_name(r) for r in changed}
    fresh = new.accepted if new.round != old.round else ()
    decisions = {*fresh, *(refusal.name for refusal in new.refused)}
    if names != decisions:
        return f"{where}: the ledger and the decisions differ"
    for register in changed:
        before = old.register(register.stream)
        if register.after != (before.decided if before else None):
            return f"{where}: stream {register.stream} is not continued"
        if register.round != old.round + 1:
            return f"{where}: stream {register.stream} has round {register.round}"
    if new.ledger != advance(old, tuple(changed), new.round):
        return f"{where}: a register is missing or kept too long"
    clipped = new.clipped if fresh else ()
    taken = new.lease.epoch != old.lease.epoch or new.lease.released
    if taken or new.roster != old.roster:
        wanted = old.standings
    else:
        wanted = _standings(old, fresh, clipped, new.refused)
    if new.standings != wanted:
        return f"{where}: the standings are not those that follow"
    return ""
