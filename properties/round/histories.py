"""Strategies: runs that could have been, and deltas of every kind on top of them."""

from typing import Any

from hypothesis import strategies as st

from speedtronic.pure.round import chain
from speedtronic.pure.round.admit import Bounds, Candidate, Facts, admit
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import File, Manifest
from speedtronic.pure.round.names import MOMENTUM, WEIGHTS

LINEAGE = "1a" * 32
BOUNDS = Bounds(payload_bytes=1000, norm=10.0)
STREAMS = [f"{i:016x}" for i in range(6)]
LIVES = ["aa" * 8, "bb" * 8]


def files(mark: int) -> tuple[File, File]:
    """Weights and momentum of some round."""
    digest = f"{mark:064x}"
    return File(WEIGHTS, digest, 9), File(MOMENTUM, digest, 9)


def genesis(limits: Limits) -> Manifest:
    """The first manifest of a run."""
    weights, momentum = files(0)
    return chain.genesis(
        lineage=LINEAGE,
        limits=limits,
        outer=(("learning_rate", 0.7),),
        weights=weights,
        momentum=momentum,
        node="n0",
        life=LIVES[0],
        nonce=f"{LIVES[0]}-0",
    )


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    """Numbers that a run may have."""
    staleness = draw(st.integers(1, 3))
    window = draw(st.integers(staleness, 5))
    return Limits(staleness=staleness, window=window, per_round=draw(st.integers(1, 4)))


@st.composite
def headers(draw: st.DrawFn, manifest: Manifest) -> Header:
    """A delta that is right, late, repeated, overtaken or of somewhere else."""
    stream = draw(st.sampled_from(STREAMS))
    register = manifest.register(stream)
    decided = register.decided if register else None
    back = draw(st.integers(0, len(manifest.recent)))
    base_id = manifest.recent_id(manifest.round - back) or "0" * 64
    strange = draw(st.integers(0, 9)) == 0
    return Header(
        run="ff" * 8 if strange else manifest.run,
        lineage=LINEAGE,
        node=f"n{STREAMS.index(stream) // 2}",
        stream=stream,
        life=draw(st.sampled_from(LIVES)),
        seq=draw(st.integers(1, 3)),
        after=draw(st.sampled_from([decided, decided, decided, None, "0" * 64])),
        base_round=max(0, manifest.round - back),
        base_id=base_id,
        cursor=draw(st.integers(0, 99)),
        inner_steps=draw(st.integers(0, 5)),
        tokens=draw(st.integers(0, 50)),
        codec="none",
        payload=f"{draw(st.integers(0, 3)):064x}",
        payload_bytes=draw(st.sampled_from([400, 400, 400, 1001])),
    )


@st.composite
def candidates(draw: st.DrawFn, manifest: Manifest) -> tuple[Candidate, ...]:
    """What may lie on the lane."""
    found: dict[Any, Candidate] = {}
    for head in draw(st.lists(headers(manifest), max_size=8)):
        facts = Facts(
            payload=head.payload,
            payload_bytes=head.payload_bytes,
            finite=draw(st.sampled_from([True, True, True, False])),
            norm=draw(st.sampled_from([1.0, 1.0, 11.0])),
            objection=draw(st.sampled_from(["", "", "", "over quota"])),
        )
        found[head.name] = Candidate(name=head.name, header=head, facts=facts)
    return tuple(found.values())


def after(old: Manifest, found: tuple[Candidate, ...], number: int) -> Manifest:
    """The manifest in which a leader decided on these."""
    decisions = admit(old, found, BOUNDS)
    return chain.decided(
        old,
        decisions.accepted_registers(old),
        decisions.refused_registers(old),
        f"{LIVES[0]}-{number}",
        files(old.round + 1) if decisions.accepted else None,
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Manifest]:
    """All manifests of a run, in their order."""
    made = [genesis(draw(limits()))]
    for number in range(draw(st.integers(0, 8))):
        old = made[-1]
        if draw(st.integers(0, 4)) == 0:
            life = draw(st.sampled_from(LIVES))
            made.append(chain.taken_over(old, "n1", life, f"{life}-{number}"))
        else:
            made.append(after(old, draw(candidates(old)), number))
    return made
