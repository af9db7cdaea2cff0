"""What a newer manifest says of a node's own work, and what that does to it.

Only a manifest decides: the answer to an upload is a hint, and a name that is missing
from a listing may have been accepted and removed.

The order is always: settle the own stream, then move the base under what is left.
Keeping all of ``theta - base`` would count the pending cut twice; starting from the
global alone would lose what was never sent.
"""

from typing import Literal

import attrs

from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.record import NONE, Record, taken_in

Action = Literal["keep", "count", "undo", "drop"]


@attrs.frozen(kw_only=True)
class Settlement:
    """How the own stream stands after a manifest.

    ``keep``: nothing happened. ``count``: the pending delta counts, so its cut leaves
    the progress and the codec's error is installed. ``undo``: it does not count and
    its content goes out again with the next cut. ``drop``: nothing that is held back
    may be sent again, and the progress is gone.
    """

    record: Record
    action: Action = "keep"
    leave: bool = False  # whether the node needs a new stream
    reason: str = ""


def adopt(record: Record, manifest: Manifest, carry: bool) -> Settlement:
    """Settle the own stream by a newer manifest, and take its round as the base.

    Args:
        record: of the node.
        manifest: newer than what the record knows.
        carry: whether progress that was not cut survives the base. If not, a pending
            cut is outside of the model from then on.
    """
    moved = manifest.round_id != record.base_id
    stays = carry or not moved
    settlement = settle(record, manifest, stays)
    after = taken_in(settlement.record, manifest)
    if not stays:
        pending = after.pending
        after = attrs.evolve(
            after,
            fresh=NONE,
            pending=pending and attrs.evolve(pending, inside=False),
        )
    return attrs.evolve(settlement, record=after)


def settle(record: Record, manifest: Manifest, stays: bool = True) -> Settlement:
    """Read the own register in a newer manifest.

    Args:
        record: of the node.
        manifest: newer than what the record knows.
        stays: whether the progress survives what comes next; if not, the content of
            an undone delta goes to the error buffer.
    """
    pending, known = record.pending, record.known
    found = manifest.register(record.stream)
    limits = manifest.limits
    away = manifest.round - record.base_round > limits.window
    if pending and found and found.decided == pending.header.id:
        record = attrs.evolve(record, known=found)
        name = f"delta {pending.header.seq} of base round {pending.header.base_round}"
        if found.verdict == "accepted":
            return _counted(record, f"{name} counts")
        why = _reason(manifest, pending.header.id)
        if found.verdict == "drop":
            return _dropped(record, f"{name} was refused for good: {why}")
        return _undone(record, stays, f"{name} was refused: {why}")
    if found and known and found.decided == known.decided:
        return _unless_stale(record, manifest, stays)
    if found is None and not away:
        # Evicted, or never there. Had the stream been decided since the base, the
        # decision would still be remembered, so nothing happened to it.
        record = attrs.evolve(record, known=None)
        if pending and pending.header.after is not None:
            return _undone(record, stays, "what it follows is no longer remembered")
        return _unless_stale(record, manifest, stays)
    follows = found is not None and found.after == (known.decided if known else None)
    if found and follows and found.verdict != "accepted" and not (away and not known):
        # Another process of this stream was refused: that counted nothing.
        record = attrs.evolve(record, known=found)
        return _undone(record, stays, "a copy of this run was refused")
    why = (
        f"away for {manifest.round - record.base_round} rounds, decisions are "
        f"remembered for {limits.window}"
        if away or found is None
        else "another process of this run (a copy or a newer checkpoint) was counted"
    )
    return attrs.evolve(_dropped(attrs.evolve(record, known=None), why), leave=True)


def undone(record: Record, stays: bool = True) -> Record:
    """The record when the content of the pending delta is to go out again.

    It is in the progress still, if the cut was and the progress stays; otherwise it
    goes to the error buffer.
    """
    pending = record.pending
    if pending is None:
        return record
    if pending.inside and stays:
        fresh, owed = pending.work - pending.owed, pending.owed
    else:
        fresh, owed = NONE, pending.work
    return attrs.evolve(
        record, pending=None, fresh=record.fresh + fresh, owed=record.owed + owed
    )


def _unless_stale(record: Record, manifest: Manifest, stays: bool) -> Settlement:
    pending = record.pending
    if pending is None:
        return Settlement(record=record)
    behind = manifest.round - pending.header.base_round
    if behind <= manifest.limits.staleness:
        return Settlement(record=record)
    # From now on no leader can accept it, so its content may go out again.
    reason = f"the delta is {behind} rounds behind and can no longer count"
    return _undone(record, stays, reason)


def _counted(record: Record, reason: str) -> Settlement:
    settled = attrs.evolve(record, pending=None)
    return Settlement(record=settled, action="count", reason=reason)


def _undone(record: Record, stays: bool, reason: str) -> Settlement:
    if record.pending is None:
        return Settlement(record=record)
    settled = undone(record, stays)
    return Settlement(record=settled, action="undo", reason=reason)


def _dropped(record: Record, reason: str) -> Settlement:
    settled = attrs.evolve(record, pending=None, fresh=NONE, owed=NONE)
    return Settlement(record=settled, action="drop", reason=reason)


def _reason(manifest: Manifest, id: str) -> str:
    told = [r.reason for r in manifest.refused if r.name.id == id]
    return told[0] if told else "the manifest with the reason was missed"
