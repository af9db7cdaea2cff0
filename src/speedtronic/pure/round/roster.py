"""The roster: which keys may deliver work to a run, and which may publish its rounds.

A run that is *signed* has one. Its owner, a key, signs it; every manifest carries it.
A delta counts only if its node's key signed it, a manifest is believed only if the key
of a node with the role ``master`` did. Who holds the repository's token but no key of
the roster can destroy files there, and change nothing that is believed.

A roster has a version. A newer one replaces it between two rounds, and a reader who has
seen a version takes no older one: what was revoked stays revoked.

Absent on purpose: signatures are made and checked in the shell. Here they are text.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain
from speedtronic.pure.round.header import node_text, word_text
from speedtronic.pure.round.names import KEY

SCHEMA = 1
MAX_MEMBERS = 256
MAX_ROSTER_BYTES = 2**17
SIGNATURE = r"[0-9a-f]{128}"

Role = Literal["worker", "master"]
key_text = plain.text(KEY, "a public key, 64 lower-case hex digits")
signature_text = plain.text(SIGNATURE, "a signature, 128 lower-case hex digits")


@attrs.frozen(kw_only=True)
class Member:
    """A node of the run."""

    node: str
    key: str  # its public key
    role: Role  # a master may also lead
    max_norm: float | None = None  # of its deltas: a larger one is refused


@attrs.frozen(kw_only=True)
class Roster:
    """Who takes part; ``signature`` is the owner's, over `signed_text`."""

    run: str  # that it belongs to
    owner: str  # the key that may change it
    version: int  # 1 when the run begins
    members: tuple[Member, ...]  # sorted by node
    signature: str = ""

    def member(self, node: str) -> Member | None:
        """The entry of a node."""
        return next((m for m in self.members if m.node == node), None)

    def may_lead(self, node: str, key: str | None = None) -> bool:
        """Whether a node may publish rounds, with that key if it is told."""
        member = self.member(node)
        if member is None or key not in (None, member.key):
            return False
        return member.role == "master"

    def lets_in(self, node: str, key: str) -> bool:
        """Whether deltas of a node count that this key signs."""
        member = self.member(node)
        return member is not None and member.key == key


def founded(run: str, owner: str, keys: Mapping[str, str]) -> Roster:
    """The roster of a run that begins; not signed yet.

    Args:
        run: the run.
        owner: its public key.
        keys: public key of each node; all of them may lead.

    Raises:
        ValueError: two nodes have the same key.

    >>> founded("0" * 16, "a" * 64, {"node-0": "b" * 64}).may_lead("node-0")
    True
    """
    if len(set(keys.values())) != len(keys):
        raise ValueError(f"two of the nodes {', '.join(sorted(keys))} have one key")
    members = tuple(
        Member(node=node, key=key, role="master") for node, key in sorted(keys.items())
    )
    return Roster(run=run, owner=owner, version=1, members=members)


def added(roster: Roster, member: Member) -> Roster:
    """One more member, or another key, role or limit of one; not signed yet.

    Raises:
        ValueError: there are too many, another node has this key, or nobody could
            lead any more.

    >>> first = founded("0" * 16, "a" * 64, {"node-0": "b" * 64})
    >>> second = added(first, Member(node="node-1", key="c" * 64, role="worker"))
    >>> second.version, [m.node for m in second.members]
    (2, ['node-0', 'node-1'])
    """
    others = tuple(m for m in roster.members if m.node != member.node)
    for other in others:
        if other.key == member.key:
            raise ValueError(f"node {other.node} has this key already")
    return _next(roster, (*others, member))


def removed(roster: Roster, node: str) -> Roster:
    """Without a member; not signed yet.

    Raises:
        ValueError: it is no member, or nobody could lead any more.

    >>> removed(founded("0" * 16, "a" * 64, {"node-0": "b" * 64}), "node-0")
    Traceback (most recent call last):
    ValueError: no master would be left, and nobody could publish a round
    """
    if roster.member(node) is None:
        known = ", ".join(m.node for m in roster.members)
        raise ValueError(f"{node} is not in the roster; it has {known}")
    return _next(roster, tuple(m for m in roster.members if m.node != node))


def _next(roster: Roster, members: tuple[Member, ...]) -> Roster:
    if len(members) > MAX_MEMBERS:
        raise ValueError(f"a roster has at most {MAX_MEMBERS} members")
    if not any(m.role == "master" for m in members):
        raise ValueError("no master would be left, and nobody could publish a round")
    members = tuple(sorted(members, key=lambda m: m.node))
    return attrs.evolve(
        roster, version=roster.version + 1, members=members, signature=""
    )


def newer(old: Roster | None, new: Roster | None) -> bool:
    """Whether ``new`` is of the same run and owner as ``old``, and replaces it."""
    if old is None or new is None:
        return False
    same = (old.run, old.owner) == (new.run, new.owner)
    return same and new.version > old.version


def changes(old: Roster | None, new: Roster | None) -> list[str]:
    """What is different, one line each, for a person.

    >>> first = founded("0" * 16, "a" * 64, {"node-0": "b" * 64})
    >>> changes(first, added(first, Member(node="n", key="c" * 64, role="worker")))
    ['n joins the roster as worker, key cccccccccccccccc']
    """
    before = {m.node: m for m in old.members} if old else {}
    after = {m.node: m for m in new.members} if new else {}
    told = []
    for node in sorted(before.keys() | after.keys()):
        was, now = before.get(node), after.get(node)
        if was == now:
            continue
        if now is None:
            told.append(f"{node} is removed from the roster")
        elif was is None:
            told.append(f"{node} joins the roster as {now.role}, key {now.key[:16]}")
        else:
            told += _changes_of(was, now)
    return told


def _changes_of(was: Member, now: Member) -> list[str]:
    told = []
    if was.key != now.key:
        told.append(f"{now.node} has another key, {now.key[:16]}")
    if was.role != now.role:
        told.append(f"{now.node} is {now.role} now")
    if was.max_norm != now.max_norm:
        told.append(f"{now.node} has the norm limit {now.max_norm} now")
    return told


def signed_text(roster: Roster) -> bytes:
    """What the owner signs."""
    value = to_plain(roster)
    del value["signature"]
    return b"speedtronic roster\n" + plain.encode(value)


def to_plain(roster: Roster) -> dict[str, Any]:
    """As plain JSON values."""
    return {
        "schema": SCHEMA,
        "run": roster.run,
        "owner": roster.owner,
        "version": roster.version,
        "members": [attrs.asdict(m) for m in roster.members],
        "signature": roster.signature,
    }


def from_plain(value: Any, where: str = "roster") -> Roster:
    """The inverse of `to_plain`.

    Raises:
        Corrupt: every mistake in one line.
    """
    found = plain.record(value, where, _ROSTER)
    del found["schema"]
    roster = Roster(**found)
    nodes = [m.node for m in roster.members]
    if nodes != sorted(set(nodes)):
        raise Corrupt(f"{where}.members: expected each node once, sorted by name")
    if len({m.key for m in roster.members}) != len(nodes):
        raise Corrupt(f"{where}.members: expected a different key for each node")
    if not any(m.role == "master" for m in roster.members):
        raise Corrupt(f"{where}.members: expected at least one master")
    return roster


def encode(roster: Roster) -> bytes:
    """The content of ``roster.json``: a roster that the leader is asked to publish."""
    return plain.encode(to_plain(roster))


def parse(data: bytes, what: str = "roster.json") -> Roster:
    """Read a roster that anybody may have written.

    Raises:
        Corrupt: not exactly a roster.

    >>> parse(b"[]")
    Traceback (most recent call last):
    speedtronic.errors.Corrupt: roster.json: expected an object, found []
    """
    return from_plain(plain.decode(data, what, MAX_ROSTER_BYTES), what)


def _limit(value: Any, where: str) -> float:
    # An integer would be read as the same number, and be another text.
    if type(value) is not float or not 0 < value < math.inf:
        found = plain.shorten(value)
        raise Corrupt(f"{where}: expected a number above 0 or null, found {found}")
    return value


def member_from_plain(value: Any, where: str) -> Member:
    """Read one entry.

    Raises:
        Corrupt: every mistake in one line.
    """
    return Member(**plain.record(value, where, _MEMBER))


_MEMBER: dict[str, plain.Reader[Any]] = {
    "node": node_text,
    "key": key_text,
    "role": plain.one_of("worker", "master"),
    "max_norm": plain.optional(_limit),
}

_ROSTER: dict[str, plain.Reader[Any]] = {
    "schema": plain.one_of(SCHEMA),
    "run": word_text,
    "owner": key_text,
    "version": plain.integer(1),
    "members": plain.array(member_from_plain, MAX_MEMBERS),
    "signature": signature_text,
}
