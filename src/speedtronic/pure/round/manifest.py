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
from speedtronic.pure.round import plain
from speedtronic.pure.round.header import hash_text, node_text, word_text
from speedtronic.pure.round.names import MOMENTUM, WEIGHTS, DeltaName, parse_delta

SCHEMA = 1
MAX_MANIFEST_BYTES = 4 * 2**20
FILES_PER_COMMIT = 50  # adds and deletes: larger commits are slow, and time out
MAX_PER_ROUND = 20  # two files each, and room for the model and for housekeeping
MAX_REASON = 300  # characters
MAX_DECISIONS = 4096  # window x per_round: the ledger holds at most twice as many

Verdict = Literal["accepted", "drop", "retry"]
Scalar = int | float | str


@attrs.frozen(kw_only=True)
class Limits:
    """The numbers that every leader must share; fixed with the lineage.

    A register may be forgotten only when no delta that could follow it can still be
    accepted, hence ``window >= staleness``. With a staleness of 0 a node whose upload
    takes as long as a round would never be counted.
    """

    staleness: int = 8  # a delta may be based on a round this far back
    window: int = 64  # rounds for which a decision is remembered
    per_round: int = 16  # deltas accepted in one round

    def problems(self) -> list[str]:
        """One line per mistake.

        >>> Limits(staleness=9, window=8).problems()
        ['window: expected at least the staleness 9, found 8']
        """
        told = []
        if not 1 <= self.staleness <= 1000:
            told.append(f"staleness: expected 1 to 1000, found {self.staleness}")
        if self.window < self.staleness:
            told.append(
                f"window: expected at least the staleness {self.staleness}, "
                f"found {self.window}"
            )
        if self.window * self.per_round > MAX_DECISIONS:
            told.append(
                f"window x per_round: expected at most {MAX_DECISIONS}, "
                f"found {self.window * self.per_round}"
            )
        if not 1 <= self.per_round <= MAX_PER_ROUND:
            told.append(
                f"per_round: expected 1 to {MAX_PER_ROUND}, found {self.per_round}"
            )
        return told


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
        "nonce": m.nonce,
    }


def register_to_plain(register: Register) -> dict[str, Any]:
    """As plain JSON values; the stream is the key it is stored under."""
    return {name: getattr(register, name) for name in _REGISTER}


def encode(manifest: Manifest) -> bytes:
    """The content of ``manifest.json``, with its own id.

    Nothing else names the newest manifest by its hash, so it vouches for itself: a
    flipped bit on the way is noticed by whoever reads it.
    """
    return plain.encode({**to_plain(manifest), "id": manifest.id})


def parse(data: bytes, what: str = "manifest.json") -> Manifest:
    """Read a manifest that anybody may have written.

    Raises:
        Corrupt: not exactly a manifest, or one that contradicts itself.

    >>> parse(b'{"schema":2}')
    Traceback (most recent call last):
    speedtronic.errors.Corrupt: manifest.json.schema: expected 1, found 2; it was
    written by another version of speedtronic
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
    manifest = Manifest(**found)
    if manifest.id != told_id:
        raise Corrupt(f"{what}: expected the content of {told_id}")
    if told := _contradictions(manifest):
        raise Corrupt(f"{what}: " + "; ".join(told))
    return manifest


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
    readers = {a.name: plain.integer(0, 10_000) for a in attrs.fields(Limits)}
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
    "nonce": plain.text(r"[0-9a-f]{16}-[0-9]{1,12}", "a life and a number"),
}
