"""What the kept rounds of a run must fulfil, as far as one can see without arithmetic.

A lane keeps one manifest of each round, the one that published it. Those in between
(renewals, refusals, take-overs) are gone, so a reader who comes later can ask less
than `speedtronic.pure.round.chain.breaks` does: that each manifest agrees with itself,
with the one kept before it, and with the headers of the deltas that it counted.

Everything here answers in words, empty when nothing is wrong.
"""

from collections.abc import Mapping

import attrs

from speedtronic.pure.round import chain
from speedtronic.pure.round.admit import inadmissible, unsigned
from speedtronic.pure.round.header import Header, disagreement
from speedtronic.pure.round.ledger import decide, remembered
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.names import DeltaName

MAX_LEAP = 10_000_000  # manifests between two that are seen: 115 days of seconds
CODEC = "none"  # the only one whose payload is the tensors themselves


def alone(manifest: Manifest, round: int) -> str:
    """Why a manifest cannot be the one that published ``round``.

    Its round id is computed again. The id of the round before is one of the recent.
    """
    m = manifest
    if m.round != round:
        return f"expected the manifest of round {round}, found that of round {m.round}"
    if round == 0 and m != _genesis(m):
        return "it is not the beginning of a run"
    before = m.recent[-2] if len(m.recent) > 1 else None
    wanted = chain.round_id(before, m.run, m.round, m.weights, m.momentum, m.accepted)
    if m.round_id != wanted:
        return f"expected round id {wanted}, found {m.round_id}"
    counted = {
        DeltaName(r.node, r.stream, r.seq, r.decided)
        for r in m.ledger
        if r.verdict == "accepted" and r.round == m.round
    }
    if counted != set(m.accepted):
        return "the ledger and the accepted deltas differ"
    return ""


def apart(old: Manifest, new: Manifest) -> str:
    """Why ``new`` cannot come after ``old``, whatever was published in between.

    >>> from speedtronic.pure.round.limits import Limits
    >>> from speedtronic.pure.round.manifest import File
    >>> first = chain.genesis(
    ...     lineage="1a" * 32, limits=Limits(), outer=(),
    ...     weights=File("model.safetensors", "00" * 32, 8),
    ...     momentum=File("outer.safetensors", "11" * 32, 8),
    ...     node="a", life="ab" * 8, nonce="ab" * 8 + "-0",
    ... )
    >>> later = chain.taken_over(first, "b", "cd" * 8, "cd" * 8 + "-0")
    >>> apart(first, later)
    ''
    >>> apart(later, first)
    'expected a serial of at least 2, found 0'
    >>> apart(first, attrs.evolve(later, serial=2**40))
    'expected a serial of at most 10000000, found 1099511627776'
    """
    shared = ["run", "lineage", "limits", "outer"]
    if new.round == old.round:
        shared += ["round_id", "recent", "weights", "momentum", "accepted", "clipped"]
    for what in shared:
        before, now = getattr(old, what), getattr(new, what)
        if before != now:
            return f"expected {what} {before}, found {now}"
    least = old.serial + max(1, new.round - old.round)
    if new.serial < least:
        return f"expected a serial of at least {least}, found {new.serial}"
    most = old.serial + MAX_LEAP
    if new.serial > most:
        return f"expected a serial of at most {most}, found {new.serial}"
    if new.serial == old.serial + 1:
        return chain.breaks(old, new)
    if new.round < old.round:
        return f"expected round {old.round} or later, found {new.round}"
    known = new.recent_id(old.round)
    if known not in (None, old.round_id):
        return f"round {old.round} was {old.round_id}, here it is {known}"
    if new.round == old.round + 1 and (told := chain.round_breaks(old, new)):
        return told
    told = chain.roster_apart(old, new)
    return told or _lease_apart(old, new) or _ledger_apart(old, new)


def counts(
    old: Manifest, new: Manifest, name: DeltaName, header: Header, signed_by: str = ""
) -> str:
    """Why a delta cannot be one that ``new`` counted on top of ``old``.

    Args:
        old: of the round before.
        new: of the round that names it as accepted.
        name: under which it is kept.
        header: that its file carries.
        signed_by: the public key whose signature the file has.
    """
    # What it followed is compared with the register instead, since a refusal between
    # the two rounds moved the register of `old`.
    free = attrs.evolve(header, after=None)
    told = disagreement(header, name)
    told = told or inadmissible(attrs.evolve(old, ledger=()), free)
    told = told or unsigned(new, header, signed_by)
    if told:
        return told
    if decide(old, header, "accepted") != new.register(header.stream):
        return "the ledger says something else of it than its header"
    if header.codec != CODEC:
        return f"expected codec {CODEC}, found {header.codec}"
    return ""


def marks(name: DeltaName) -> tuple[str, str]:
    """What no other delta of a run may have: its id, and its number in its stream.

    >>> marks(DeltaName("a", "00000000000000aa", 3, "f" * 64))
    ('fff...', '00000000000000aa-3')
    """
    return name.id, f"{name.stream}-{name.seq}"


def repeated(counted: Mapping[str, int], accepted: tuple[DeltaName, ...]) -> str:
    """Which delta counted before.

    Args:
        counted: for the `marks` of deltas so far, the round in which they counted.
        accepted: of a later round.

    >>> name = DeltaName("a", "00000000000000aa", 3, "f" * 64)
    >>> repeated({"00000000000000aa-3": 1}, (name,))
    'delta 3 of stream 00000000000000aa (node a) counted in round 1 already'
    """
    for name in accepted:
        for mark in marks(name):
            if mark in counted:
                return (
                    f"delta {name.seq} of stream {name.stream} (node {name.node}) "
                    f"counted in round {counted[mark]} already"
                )
    return ""


def spans(kept: set[int], anchors: set[int]) -> tuple[tuple[int, int], ...]:
    """Which rounds can be computed again: (first, last) of each unbroken row.

    Args:
        kept: rounds whose manifest is there.
        anchors: those whose weights and momentum are there, too.

    >>> spans({0, 1, 2, 3, 6, 7, 8}, {0, 7})
    ((1, 3), (8, 8))
    """
    found: list[tuple[int, int]] = []
    for round in sorted(kept):
        if found and found[-1][1] == round - 1:
            found[-1] = found[-1][0], round
        elif round - 1 in anchors & kept:
            found.append((round, round))
    return tuple(found)


def _genesis(m: Manifest) -> Manifest:
    """The first manifest that has what ``m`` has."""
    return chain.genesis(
        lineage=m.lineage,
        limits=m.limits,
        outer=m.outer,
        weights=m.weights,
        momentum=m.momentum,
        node=m.lease.node,
        life=m.lease.life,
        nonce=m.nonce,
        roster=m.roster,
    )


def _lease_apart(old: Manifest, new: Manifest) -> str:
    before, after = old.lease, new.lease
    if after.epoch < before.epoch:
        return f"lease of epoch {after.epoch} after epoch {before.epoch}"
    passed = new.serial - old.serial
    if after.epoch == before.epoch and (
        (after.node, after.life) != (before.node, before.life)
        or after.renewals != before.renewals + passed
        or before.released
    ):
        return f"two leases of epoch {after.epoch}"
    return ""


def _ledger_apart(old: Manifest, new: Manifest) -> str:
    for register in new.ledger:
        before = old.register(register.stream)
        if register == before:
            continue
        if register.round <= old.round:
            return f"stream {register.stream} was decided in round {register.round}"
        # Between two rounds nothing is evicted, so a stream cannot begin again.
        if before and register.after is None and new.round <= old.round + 1:
            return f"stream {register.stream} is not continued"
    for register in old.ledger:
        gone = new.register(register.stream) is None
        if gone and remembered(new.limits, register, new.round):
            return f"the register of stream {register.stream} is missing"
    return ""
