"""What a checkpoint keeps of the protocol, beside the vectors it speaks of.

A node's *progress* is what its model moved since the base. Part of it may be cut out
as the pending delta, the only one of its stream that is not decided yet. What was cut
and came back, after the base had moved away without it, waits in the *error buffer*,
together with what a codec could not express.

A record and its vectors belong to the same step boundary. One without the other would
count work twice or lose it.
"""

from typing import Any

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.round import header as headers
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import plain
from speedtronic.pure.round.chain import differs
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Manifest, Register


@attrs.frozen
class Work:
    """How much training a vector holds.

    >>> Work(2, 30) + Work(1, 10)
    Work(steps=3, tokens=40)
    """

    steps: int = 0
    tokens: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.steps + other.steps, self.tokens + other.tokens)

    def __sub__(self, other: "Work") -> "Work":
        return Work(self.steps - other.steps, self.tokens - other.tokens)


NONE = Work()


@attrs.frozen(kw_only=True)
class Pending:
    """The one delta of a stream that is not decided."""

    header: Header
    inside: bool = True  # whether the cut is still part of the progress
    owed: Work = NONE  # what of it came from the error buffer

    @property
    def work(self) -> Work:
        """All that is in it."""
        return Work(self.header.inner_steps, self.header.tokens)


@attrs.frozen(kw_only=True)
class Record:
    """The protocol's part of a checkpoint."""

    node: str
    lineage: str
    stream: str
    run: str | None = None  # once known, this node never begins another one
    serial: int = -1  # of the newest manifest taken in
    base_round: int = -1
    base_id: str | None = None
    known: Register | None = None  # the own register in that manifest
    seq: int = 0  # cuts so far
    fresh: Work = NONE  # in the progress, and in no pending delta
    owed: Work = NONE  # in the error buffer
    pending: Pending | None = None

    @property
    def joined(self) -> bool:
        """Whether there is a base to train on."""
        return self.base_id is not None

    @property
    def unsent(self) -> Work:
        """What the next cut takes."""
        return self.fresh + self.owed


def taken_in(record: Record, manifest: Manifest) -> Record:
    """The record after a manifest was read, and its round is the base."""
    return attrs.evolve(
        record,
        run=manifest.run,
        serial=manifest.serial,
        base_round=manifest.round,
        base_id=manifest.round_id,
    )


def fork(record: Record, manifest: Manifest) -> str:
    """Why a manifest is of another history than the record; empty when it is not."""
    return differs(
        manifest,
        lineage=record.lineage,
        run=record.run,
        serial=record.serial,
        round=record.base_round,
        round_id=record.base_id,
    )


def to_plain(record: Record) -> dict[str, Any]:
    """As plain JSON values."""
    fields = {name: getattr(record, name) for name in _RECORD}
    fields |= {name: attrs.asdict(fields[name]) for name in ("fresh", "owed")}
    pending, known = record.pending, record.known
    if known:
        register = manifests.register_to_plain(known)
        fields["known"] = {"stream": known.stream, "register": register}
    if pending:
        fields["pending"] = {
            "header": headers.to_plain(pending.header),
            "inside": pending.inside,
            "owed": attrs.asdict(pending.owed),
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


def _work(value: Any, where: str) -> Work:
    readers = {"steps": plain.integer(), "tokens": plain.integer()}
    return Work(**plain.record(value, where, readers))


def _known(value: Any, where: str) -> Register:
    anything: plain.Reader[Any] = lambda v, _: v
    found = plain.record(value, where, {"stream": anything, "register": anything})
    return manifests.register_from_plain(found["stream"], found["register"], where)


def _pending(value: Any, where: str) -> Pending:
    readers: dict[str, plain.Reader[Any]] = {
        "header": headers.from_plain,
        "inside": plain.one_of(True, False),
        "owed": _work,
    }
    return Pending(**plain.record(value, where, readers))


_RECORD: dict[str, plain.Reader[Any]] = {
    "node": headers.node_text,
    "lineage": headers.hash_text,
    "stream": headers.word_text,
    "run": plain.optional(headers.word_text),
    "serial": plain.integer(-1),
    "base_round": plain.integer(-1),
    "base_id": plain.optional(headers.hash_text),
    "known": plain.optional(_known),
    "seq": plain.integer(),
    "fresh": _work,
    "owed": _work,
    "pending": plain.optional(_pending),
}
