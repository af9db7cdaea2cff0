"""What a newer manifest says of a node's own work, and what that does to it.

A node's *progress* is what its model moved since the base. Part of it may be cut out
as the pending delta, the only one of its stream that is not decided yet. Only a
manifest decides: the answer to an upload is a hint, and a name that is missing from a
listing may have been accepted and removed.

The order is always: settle the own stream, then move the base under what is left.
Keeping all of ``theta - base`` would count the pending cut twice; starting from the
global alone would lose what was never sent.
"""

from typing import Any, Literal

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.round import header as headers
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import plain
from speedtronic.pure.round.chain import differs
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Manifest, Register

Action = Literal["keep", "count", "undo", "drop"]


@attrs.frozen(kw_only=True)
class Pending:
    """The one delta of a stream that is not decided."""

    header: Header
    inside: bool = True  # whether the cut is still part of the progress
    owed: bool = False  # whether undone work from the error buffer is in it


@attrs.frozen(kw_only=True)
class Record:
    """What a checkpoint keeps of the protocol, beside the vectors it speaks of."""

    node: str
    lineage: str
    stream: str
    run: str | None = None  # once known, this node never begins another one
    serial: int = -1  # of the newest manifest taken in
    manifest_id: str | None = None
    base_round: int = -1
    base_id: str | None = None
    known: Register | None = None  # the own register in that manifest
    seq: int = 0  # cuts so far
    unsent_steps: int = 0  # work that is in no pending delta
    unsent_tokens: int = 0
    owed: bool = False  # undone work waits in the error buffer
    pending: Pending | None = None

    @property
    def joined(self) -> bool:
        """Whether there is a base to train on."""
        return self.base_id is not None


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


def settle(record: Record, manifest: Manifest) -> Settlement:
    """Read the own register in a newer manifest."""
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
        return _undone(record, f"{name} was refused: {why}")
    if found and known and found.decided == known.decided:
        return _unless_stale(record, manifest)
    if found is None and not away:
        # Evicted, or never there. Had the stream been decided since the base, the
        # decision would still be remembered, so nothing happened to it.
        record = attrs.evolve(record, known=None)
        if pending and pending.header.after is not None:
            return _undone(record, "what it follows is no longer remembered")
        return _unless_stale(record, manifest)
    follows = found is not None and found.after == (known.decided if known else None)
    if found and follows and found.verdict != "accepted" and not (away and not known):
        # Another process of this stream was refused: that counted nothing.
        return _undone(
            attrs.evolve(record, known=found), "a copy of this run was refused"
        )
    why = (
        f"away for {manifest.round - record.base_round} rounds, decisions are "
        f"remembered for {limits.window}"
        if away or found is None
        else "another process of this run (a copy or a newer checkpoint) was counted"
    )
    return attrs.evolve(_dropped(attrs.evolve(record, known=None), why), leave=True)


def rebased(record: Record, manifest: Manifest, carry: bool) -> Record:
    """The record after the base moved under what is left of the progress.

    Args:
        record: already settled.
        manifest: whose global becomes the base.
        carry: whether progress after the cut is kept. If not, a pending delta is from
            now on outside of the model, and what was never cut is dropped.
    """
    record = taken_in(record, manifest)
    if carry or manifest.round_id == record.base_id:
        return attrs.evolve(
            record, base_round=manifest.round, base_id=manifest.round_id
        )
    pending = record.pending
    return attrs.evolve(
        record,
        base_round=manifest.round,
        base_id=manifest.round_id,
        unsent_steps=0,
        unsent_tokens=0,
        pending=pending and attrs.evolve(pending, inside=False),
    )


def taken_in(record: Record, manifest: Manifest) -> Record:
    """The record after a manifest was read to the end."""
    return attrs.evolve(
        record, run=manifest.run, serial=manifest.serial, manifest_id=manifest.id
    )


def undone(record: Record) -> Record:
    """The record when the content of the pending delta is to go out again."""
    pending = record.pending
    if pending is None:
        return record
    return attrs.evolve(
        record,
        pending=None,
        unsent_steps=record.unsent_steps + pending.header.inner_steps,
        unsent_tokens=record.unsent_tokens + pending.header.tokens,
        owed=record.owed or pending.owed or not pending.inside,
    )


def fork(record: Record, manifest: Manifest) -> str:
    """Why a manifest is of another history than the record; empty when it is not."""
    return differs(
        manifest,
        lineage=record.lineage,
        run=record.run,
        serial=record.serial,
        manifest_id=record.manifest_id,
        round=record.base_round,
        round_id=record.base_id,
    )


def to_plain(record: Record) -> dict[str, Any]:
    """As plain JSON values, for a checkpoint."""
    fields = {name: getattr(record, name) for name in _RECORD}
    pending, known = record.pending, record.known
    if known:
        register = manifests.register_to_plain(known)
        fields["known"] = {"stream": known.stream, "register": register}
    if pending:
        header = headers.to_plain(pending.header)
        fields["pending"] = {
            "header": header,
            "inside": pending.inside,
            "owed": pending.owed,
        }
    return fields


def from_plain(value: Any, where: str = "record") -> Record:
    """The inverse of `to_plain`.

    Raises:
        Corrupt: every mistake in one line.
    """
    record = Record(**plain.record(value, where, _RECORD))
    if record.pending and record.pending.header.stream != record.stream:
        raise Corrupt(f"{where}.pending: expected a delta of stream {record.stream}")
    return record


def _unless_stale(record: Record, manifest: Manifest) -> Settlement:
    pending = record.pending
    if pending is None:
        return Settlement(record=record)
    behind = manifest.round - pending.header.base_round
    if behind <= manifest.limits.staleness:
        return Settlement(record=record)
    # From now on no leader can accept it, so its content may go out again.
    return _undone(record, f"it is {behind} rounds behind and can no longer count")


def _counted(record: Record, reason: str) -> Settlement:
    settled = attrs.evolve(record, pending=None)
    return Settlement(record=settled, action="count", reason=reason)


def _undone(record: Record, reason: str) -> Settlement:
    if record.pending is None:
        return Settlement(record=record)
    return Settlement(record=undone(record), action="undo", reason=reason)


def _dropped(record: Record, reason: str) -> Settlement:
    settled = attrs.evolve(
        record, pending=None, unsent_steps=0, unsent_tokens=0, owed=False
    )
    return Settlement(record=settled, action="drop", reason=reason)


def _reason(manifest: Manifest, id: str) -> str:
    told = [r.reason for r in manifest.refused if r.name.id == id]
    return told[0] if told else "the manifest with the reason was missed"


def _known(value: Any, where: str) -> Register:
    anything: plain.Reader[Any] = lambda v, _: v
    found = plain.record(value, where, {"stream": anything, "register": anything})
    return manifests.register_from_plain(found["stream"], found["register"], where)


def _pending(value: Any, where: str) -> Pending:
    readers: dict[str, plain.Reader[Any]] = {
        "header": headers.from_plain,
        "inside": plain.one_of(True, False),
        "owed": plain.one_of(True, False),
    }
    return Pending(**plain.record(value, where, readers))


_RECORD: dict[str, plain.Reader[Any]] = {
    "node": headers.node_text,
    "lineage": headers.hash_text,
    "stream": headers.word_text,
    "run": plain.optional(headers.word_text),
    "serial": plain.integer(-1),
    "manifest_id": plain.optional(headers.hash_text),
    "base_round": plain.integer(-1),
    "base_id": plain.optional(headers.hash_text),
    "known": plain.optional(_known),
    "seq": plain.integer(),
    "unsent_steps": plain.integer(),
    "unsent_tokens": plain.integer(),
    "owed": plain.one_of(True, False),
    "pending": plain.optional(_pending),
}
