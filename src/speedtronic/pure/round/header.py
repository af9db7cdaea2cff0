"""The header of a delta: whose work it is, what it was computed on, what it follows.

The id of a delta is the hash of its header, and the header holds the hash of the
payload, so the id names the content. ``after`` makes the deltas of one stream a
chain: it is the last decision that the writer knew of its own stream. A leader
accepts a delta only if nothing was decided since, which is why a copy, a resend or a
restart can never be counted twice.

Deliberately absent: time stamps. No clock is compared with another one.
"""

from functools import cached_property
from typing import Any

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain
from speedtronic.pure.round.names import (
    HASH,
    NODE_MEANING,
    WORD,
    DeltaName,
    is_node,
)

SCHEMA = 1
SIGN = "base-minus-current"  # it descends; the opposite sign would climb, silently
MAX_HEADER_BYTES = 4096

hash_text = plain.text(HASH, "64 lower-case hex digits")
word_text = plain.text(WORD, "16 lower-case hex digits")


def node_text(value: Any, where: str) -> str:
    """Read the name of a node, held to the grammar of every name on a lane.

    Raises:
        Corrupt: it is none.

    >>> node_text("con", "header.node")
    Traceback (most recent call last):
    speedtronic.errors.Corrupt: header.node: expected 1 to 64 of ...
    """
    if not is_node(value):
        raise Corrupt(f"{where}: expected {NODE_MEANING}, found {plain.shorten(value)}")
    return str(value)


_READERS: dict[str, plain.Reader[Any]] = {
    "schema": plain.one_of(SCHEMA),
    "run": word_text,
    "lineage": hash_text,
    "node": node_text,
    "stream": word_text,
    "life": word_text,
    "seq": plain.integer(1, 10**11),
    "after": plain.optional(hash_text),
    "base_round": plain.integer(),
    "base_id": hash_text,
    "cursor": plain.integer(),
    "inner_steps": plain.integer(),
    "tokens": plain.integer(),
    "codec": plain.text(r"[a-z0-9][a-z0-9._-]{0,31}", "the name of a codec"),
    "sign": plain.one_of(SIGN),
    "payload": hash_text,
    "payload_bytes": plain.integer(),
}


@attrs.frozen(kw_only=True)
class Header:
    """Everything about a delta except its tensors."""

    run: str
    lineage: str
    node: str
    stream: str  # the line of work, which a restored checkpoint inherits
    life: str  # the process that cut it
    seq: int  # how many cuts its stream has made
    after: str | None  # id of the last decision known of this stream
    base_round: int
    base_id: str  # round id of the base
    cursor: int  # where the next batch of this node begins
    inner_steps: int  # work that is in it
    tokens: int
    codec: str
    payload: str  # sha256 of the encoded tensors
    payload_bytes: int

    @cached_property
    def id(self) -> str:
        """The sha256 of the encoding."""
        return plain.digest(to_plain(self))

    @property
    def name(self) -> DeltaName:
        """The name it must have on the lane."""
        return DeltaName(self.node, self.stream, self.seq, self.id)


def to_plain(header: Header) -> dict[str, Any]:
    """As a plain dict, with the format's own fields."""
    fields = {a.name: getattr(header, a.name) for a in attrs.fields(Header)}
    return {"schema": SCHEMA, "sign": SIGN, **fields}


def from_plain(value: Any, where: str = "header") -> Header:
    """The inverse of `to_plain`.

    Raises:
        Corrupt: every mistake in one line.
    """
    found = plain.record(value, where, _READERS)
    return Header(**{a.name: found[a.name] for a in attrs.fields(Header)})


def encode(header: Header) -> bytes:
    """The text that a delta's file carries, whose sha256 is the id."""
    return plain.encode(to_plain(header))


def parse(data: bytes) -> Header:
    """Read a header that anybody may have written.

    Raises:
        Corrupt: not exactly a header.

    >>> parse(b"{}")
    Traceback (most recent call last):
    speedtronic.errors.Corrupt: header: missing key 'schema'; ...
    """
    return from_plain(plain.decode(data, "header", MAX_HEADER_BYTES))


def disagreement(header: Header, name: DeltaName) -> str:
    """In which part a header and the name of its file differ; empty when they agree."""
    for part in ("node", "stream", "seq", "id"):
        told, found = getattr(name, part), getattr(header, part)
        if told != found:
            return f"the name says {part} {told}, the header {found}"
    return ""
