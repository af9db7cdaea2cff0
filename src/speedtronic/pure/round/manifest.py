"""The manifest: the one file from which everything else of a run is reached.

There is one chain of them. Each names the one before it, so a rewritten history is
noticed. ``serial`` grows with every manifest, ``round`` only when the global model
changed. A base is named by its round id, the hash of what the round did. Renewing a
lease makes a new manifest but not a new round, and a delta cut on the round before
the renewal still counts.

Deliberately absent: time stamps (no clock is compared with another one) and the
names of people. `speedtronic.pure.round.chain` makes manifests and checks the chain.
"""

from functools import cached_property
from typing import Any, Literal

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain, standing
from speedtronic.pure.round.header import hash_text, node_text, word_text
from speedtronic.pure.round.limits import MAX_DECISIONS, MAX_PER_ROUND, Limits
from speedtronic.pure.round.names import (
    MANIFEST,
    MOMENTUM,
    WEIGHTS,
    DeltaName,
    parse_delta,
)
from speedtronic.pure.round.roster import Roster, signature_text
from speedtronic.pure.round.roster import from_plain as roster_from_plain
from speedtronic.pure.round.roster import to_plain as roster_to_plain
from speedtronic.pure.round.standing import Standing

SCHEMA = 2
MAX_MANIFEST_BYTES = 16 * 2**20  # a full ledger, standings and roster
MAX_SERIAL = 10**13  # none that counts by one comes near
FILES_PER_COMMIT = 50  # adds and deletes: larger commits are slow, and time out
MAX_REASON = 300  # characters

Verdict = Literal["accepted", "drop", "retry"]
Scalar = int | float | str


@attrs.frozen
class File:
    """A file of this round, by name and content."""

    name: str
    sha256: str
    bytes: int


@attrs.frozen(kw_only=True)
class Register:
    """What was decided last of one stream; a delta must say that it follows this."""

    stream: str
    node: str
    seq: int
    decided: str  # id of the delta
    after: str | None  # what that one followed
    verdict: Verdict
    round: int  # the round that it was decided for
    life: str
    cursor: int  # where the node's data goes on behind the last ACCEPTED delta


@attrs.frozen
class Refusal:
    """A delta that does not count, and whether its content may come again."""

    name: DeltaName
    verdict: Literal["drop", "retry"]
    reason: str


@attrs.frozen(kw_only=True)
class Lease:
    """Who may publish. A life, not a node: a restarted leader holds nothing."""

    node: str
    life: str
    epoch: int  # one more with each take-over
    renewals: int
    released: bool = False  # given up by its holder, free to take at once


@attrs.frozen(kw_only=True)
class Manifest:
    """The state of a run."""

    previous: str | None  # id of the manifest before this one, whatever changed
    serial: int
    run: str
    lineage: str
    limits: Limits
    outer: tuple[tuple[str, Scalar], ...]  # numbers of the outer step, by name
    round: int
    round_id: str
    recent: tuple[str, ...]  # round ids of the last staleness + 1 rounds, newest last
    weights: File
    momentum: File
    accepted: tuple[DeltaName, ...]  # of this round, in aggregation order
    refused: tuple[Refusal, ...]  # by this manifest
    ledger: tuple[Register, ...]  # sorted by stream
    lease: Lease
    roster: Roster | None = None  # None: open, whoever can write takes part
    standings: tuple[Standing, ...] = ()  # sorted by node
    clipped: tuple[DeltaName, ...] = ()  # of those accepted, the ones made smaller
    nonce: str  # of the attempt: two commits are never byte for byte the same

    @cached_property
    def id(self) -> str:
        """The sha256 of everything in it."""
        return plain.digest(to_plain(self))

    def register(self, stream: str) -> Register | None:
        """What was decided last of a stream, if that is still remembered."""
        return self._registers.get(stream)

    @cached_property
    def _registers(self) -> dict[str, Register]:
        return {r.stream: r for r in self.ledger}

    def recent_id(self, round: int) -> str | None:
        """The id of one of the last rounds; None if it is not one of those."""
        back = self.round - round
        return self.recent[-1 - back] if 0 <= back < len(self.recent) else None


def to_plain(manifest: Manifest) -> dict[str, Any]:
    """As plain JSON values."""
    m = manifest
    return {
        "schema": SCHEMA,
        "previous": m.previous,
        "serial": m.serial,
        "run": m.run,
        "lineage": m.lineage,
        "limits": attrs.asdict(m.limits),
        "outer": dict(m.outer),
        "round": m.round,
        "round_id": m.round_id,
        "recent": list(m.recent),
        "weights": attrs.asdict(m.weights),
        "momentum": attrs.asdict(m.momentum),
        "accepted": [name.path for name in m.accepted],
        "refused": [
            {"name": r.name.path, "verdict": r.verdict, "reason": r.reason}
            for r in m.refused
        ],
        "ledger": {r.stream: register_to_plain(r) for r in m.ledger},
        "lease": attrs.asdict(m.lease),
        "roster": roster_to_plain(m.roster) if m.roster else None,
        "standings": [attrs.asdict(s) for s in m.standings],
        "clipped": [name.path for name in m.clipped],
        "nonce": m.nonce,
    }


def register_to_plain(register: Register) -> dict[str, Any]:
    """As plain JSON values; the stream is the key it is stored under."""
    return {name: getattr(register, name) for name in _REGISTER}


def encode(manifest: Manifest, signature: str | None = None) -> bytes:
    """The content of ``manifest.json``, with its own id.

    Nothing else names the newest manifest by its hash, so it vouches for itself: a
    flipped bit on the way is noticed by whoever reads it. In a signed run the holder
    of its lease also signs `signed_text`.
    """
    own = {"id": manifest.id, "signature": signature}
    return plain.encode({**to_plain(manifest), **own})


def signed_text(manifest: Manifest) -> bytes:
    """What the holder of the lease signs."""
    return f"speedtronic manifest\n{manifest.id}".encode()


def parse(data: bytes, what: str = MANIFEST) -> Manifest:
    """Read a manifest that anybody may have written; its signature is not checked.

    Raises:
        Corrupt: not exactly a manifest, or one that contradicts itself.

    >>> parse(b'{"schema":1}')
    Traceback (most recent call last):
    speedtronic.errors.Corrupt: manifest.json.schema: expected 2, found 1; it was
    written by another version of speedtronic
    """
    return parse_signed(data, what)[0]


def parse_signed(data: bytes, what: str = MANIFEST) -> tuple[Manifest, str | None]:
    """A manifest, and the signature that it comes with.

    Raises:
        Corrupt: as `parse` does.
    """
    value = plain.decode(data, what, MAX_MANIFEST_BYTES)
    if isinstance(value, dict) and value.get("schema", SCHEMA) != SCHEMA:
        found = plain.shorten(value["schema"])
        raise Corrupt(
            f"{what}.schema: expected {SCHEMA}, found {found}; it was written by "
            "another version of speedtronic"
        )
    found = plain.record(value, what, _MANIFEST)
    told_id, _ = found.pop("id"), found.pop("schema")
    signature: str | None = found.pop("signature")
    manifest = Manifest(**found)
    if manifest.id != told_id:
        raise Corrupt(f"{what}: expected the content of {told_id}")
    if told := _contradictions(manifest):
        raise Corrupt(f"{what}: " + "; ".join(told))
    return manifest, signature


def register_from_plain(stream: str, value: Any, where: str) -> Register:
    """The inverse of `register_to_plain`.

    Raises:
        Corrupt: every mistake in one line.
    """
    return Register(
        stream=word_text(stream, where), **plain.record(value, where, _REGISTER)
    )


def _contradictions(m: Manifest) -> list[str]:
    told = [f"limits.{line}" for line in m.limits.problems()]
    if len(m.recent) != min(m.round, m.limits.staleness) + 1:
        told.append(f"recent: found {len(m.recent)} round ids at round {m.round}")
    elif m.recent[-1] != m.round_id:
        told.append("recent: expected the round id last")
    if (m.previous is None) != (m.serial == 0):
        told.append(f"previous: found {m.previous} at serial {m.serial}")
    if m.serial < m.round:
        told.append(f"serial: expected at least the round {m.round}, found {m.serial}")
    if len(m.accepted) > m.limits.per_round:
        told.append(f"accepted: found {len(m.accepted)} deltas in one round")
    if list(m.accepted) != sorted(m.accepted):
        told.append("accepted: expected an order by name")
    if len({name.stream for name in m.accepted}) != len(m.accepted):
        told.append("accepted: found a stream twice")
    if bool(m.accepted) != (m.round > 0):
        told.append(f"accepted: found {len(m.accepted)} deltas at round {m.round}")
    if not set(m.clipped) <= set(m.accepted):
        told.append("clipped: found a delta that did not count")
    if m.roster and m.roster.run != m.run:
        told.append(f"roster: it is of run {m.roster.run}")
    if m.roster and not m.roster.may_lead(m.lease.node):
        told.append(f"lease: {m.lease.node} is not a master in the roster")
    if m.serial > MAX_SERIAL:
        told.append(f"serial: expected at most {MAX_SERIAL}, found {m.serial}")
    if m.lease.epoch + m.lease.renewals > m.serial:
        told.append(f"lease: more epochs and renewals than the serial {m.serial}")
    latest = m.round + 1 + m.limits.aside
    if any(s.until > latest or s.round > m.round + 1 for s in m.standings):
        told.append(f"standings: found a term beyond round {latest}")
    if len({name.node for name in m.accepted}) != len(m.accepted):
        told.append("accepted: found a node twice")
    oldest = m.round + 1 - m.limits.window
    if any(not oldest <= r.round <= m.round + 1 for r in m.ledger):
        told.append("ledger: found a register outside the window")
    return told


def _delta_name(value: Any, where: str) -> DeltaName:
    path = plain.words(240)(value, where)
    try:
        return parse_delta(path)
    except ValueError as error:
        raise Corrupt(f"{where}: {error}") from None


def _limits(value: Any, where: str) -> Limits:
    readers: dict[str, plain.Reader[Any]] = {
        a.name: plain.integer(0, 10_000) for a in attrs.fields(Limits)
    }
    readers |= {"max_norm": plain.number, "norm_ratio": plain.number}
    return Limits(**plain.record(value, where, readers))


def _file(name: str) -> plain.Reader[File]:
    readers = {
        "name": plain.one_of(name),
        "sha256": hash_text,
        "bytes": plain.integer(),
    }
    return lambda value, where: File(**plain.record(value, where, readers))


def _refusal(value: Any, where: str) -> Refusal:
    readers = {
        "name": _delta_name,
        "verdict": plain.one_of("drop", "retry"),
        "reason": plain.words(MAX_REASON),
    }
    return Refusal(**plain.record(value, where, readers))


def _ledger(value: Any, where: str) -> tuple[Register, ...]:
    entries = plain.table(lambda v, _: v, 2 * MAX_DECISIONS)(value, where)
    return tuple(register_from_plain(k, v, f"{where}.{k}") for k, v in entries)


def _lease(value: Any, where: str) -> Lease:
    readers = {
        "node": node_text,
        "life": word_text,
        "epoch": plain.integer(),
        "renewals": plain.integer(),
        "released": plain.one_of(True, False),
    }
    return Lease(**plain.record(value, where, readers))


def _standing(value: Any, where: str) -> Standing:
    readers = {
        "node": node_text,
        "strikes": plain.integer(),
        "until": plain.integer(),
        "round": plain.integer(),
        "reason": plain.words(standing.MAX_REASON),
    }
    return Standing(**plain.record(value, where, readers))


_REGISTER: dict[str, plain.Reader[Any]] = {
    "node": node_text,
    "seq": plain.integer(1),
    "decided": hash_text,
    "after": plain.optional(hash_text),
    "verdict": plain.one_of("accepted", "drop", "retry"),
    "round": plain.integer(),
    "life": word_text,
    "cursor": plain.integer(),
}

_MANIFEST: dict[str, plain.Reader[Any]] = {
    "schema": plain.integer(),
    "id": hash_text,
    "previous": plain.optional(hash_text),
    "serial": plain.integer(),
    "run": word_text,
    "lineage": hash_text,
    "limits": _limits,
    "outer": plain.table(plain.scalar, 32),
    "round": plain.integer(),
    "round_id": hash_text,
    "recent": plain.array(hash_text, 1001),
    "weights": _file(WEIGHTS),
    "momentum": _file(MOMENTUM),
    "accepted": plain.array(_delta_name, MAX_PER_ROUND),
    "refused": plain.array(_refusal, MAX_PER_ROUND),
    "ledger": _ledger,
    "lease": _lease,
    "roster": plain.optional(roster_from_plain),
    "standings": plain.array(_standing, 2 * MAX_DECISIONS),
    "clipped": plain.array(_delta_name, MAX_PER_ROUND),
    "signature": plain.optional(signature_text),
    "nonce": plain.text(r"[0-9a-f]{16}-[0-9]{1,12}", "a life and a number"),
}
