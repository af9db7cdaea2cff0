"""Values of a small run, for the tests of the round."""

from typing import Any

import attrs

from speedtronic.pure.round import chain
from speedtronic.pure.round.admit import Candidate, Decisions, Facts
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import File, Manifest
from speedtronic.pure.round.names import MOMENTUM, WEIGHTS

LINEAGE = "1a" * 32
LIFE = "ab" * 8
STREAM = "cd" * 8
OTHER = "ef" * 8
LIMITS = Limits(staleness=2, window=4, per_round=3)


def files(mark: int) -> tuple[File, File]:
    """Weights and momentum of some round."""
    digest = f"{mark:064x}"
    return File(WEIGHTS, digest, 100), File(MOMENTUM, digest, 100)


def genesis(**changes: Any) -> Manifest:
    """The first manifest of a run."""
    weights, momentum = files(0)
    known: dict[str, Any] = {
        "lineage": LINEAGE,
        "limits": LIMITS,
        "outer": (("learning_rate", 0.7), ("momentum", 0.9)),
        "weights": weights,
        "momentum": momentum,
        "node": "leader",
        "life": LIFE,
        "nonce": f"{LIFE}-0",
    }
    return chain.genesis(**{**known, **changes})


def header(manifest: Manifest, **changes: Any) -> Header:
    """The next delta of a stream, cut on a manifest's round."""
    stream = changes.get("stream", STREAM)
    register = manifest.register(stream)
    known: dict[str, Any] = {
        "run": manifest.run,
        "lineage": manifest.lineage,
        "node": "node-1",
        "stream": stream,
        "life": LIFE,
        "seq": register.seq + 1 if register else 1,
        "after": register.decided if register else None,
        "base_round": manifest.round,
        "base_id": manifest.round_id,
        "cursor": 50,
        "inner_steps": 50,
        "tokens": 800,
        "codec": "none",
        "payload": "7" * 64,
        "payload_bytes": 400,
    }
    return Header(**{**known, **changes})


def candidate(head: Header, **facts: Any) -> Candidate:
    """A delta as a reader found it: what its header says, or something else."""
    known = {"payload": head.payload, "payload_bytes": head.payload_bytes}
    return Candidate(name=head.name, header=head, facts=Facts(**{**known, **facts}))


def publish(old: Manifest, decisions: Decisions) -> Manifest:
    """The manifest after these decisions."""
    return chain.decided(
        old,
        decisions.accepted_registers(old),
        decisions.refused_registers(old),
        f"{LIFE}-{old.serial + 1}",
        files(old.round + 1) if decisions.accepted else None,
    )


def accept(old: Manifest, *headers: Header) -> Manifest:
    """The manifest of a round in which these deltas count."""
    chosen = sorted((candidate(h) for h in headers), key=lambda c: c.name)
    return publish(old, Decisions(accepted=tuple(chosen)))


def rounds(manifest: Manifest, number: int, stream: str = OTHER) -> Manifest:
    """The manifest some rounds later; another stream did the work."""
    for _ in range(number):
        work = header(manifest, stream=stream, node="other")
        manifest = accept(manifest, work)
    return manifest


def renew(manifest: Manifest) -> Manifest:
    """The manifest after a renewal of the lease."""
    return chain.decided(manifest, (), (), f"{LIFE}-{manifest.serial + 1}", None)


def with_seq(head: Header, seq: int) -> Header:
    """Another cut of the same stream."""
    return attrs.evolve(head, seq=seq)
