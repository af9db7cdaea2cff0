"""The ledger: per stream one register, moved by compare-and-swap.

A delta says which decision it follows (`Header.after`). It can count only while the
register of its stream still holds that decision, so it counts at most once, whatever
is repeated, restored or copied, and however many processes write the same stream.

A ledger per process life or of highest sequence numbers does not do: a checkpoint
restored after a crash starts a new life with work that may already be counted.
"""

from speedtronic.pure.round.header import Header
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import Manifest, Register, Verdict


def decide(manifest: Manifest, header: Header, verdict: Verdict) -> Register:
    """The register after a decision on a delta that follows the present one.

    The data cursor moves only when the delta counts: what was refused is read again.
    """
    before = manifest.register(header.stream)
    counted = verdict == "accepted"
    return Register(
        stream=header.stream,
        node=header.node,
        seq=header.seq,
        decided=header.id,
        after=header.after,
        verdict=verdict,
        round=manifest.round + 1,
        life=header.life,
        cursor=header.cursor if counted else before.cursor if before else 0,
    )


def advance(
    manifest: Manifest, registers: tuple[Register, ...], round: int
) -> tuple[Register, ...]:
    """The ledger with some registers replaced and old ones evicted.

    Args:
        manifest: whose ledger it is.
        registers: new values.
        round: of the manifest that will hold the result.
    """
    merged = {r.stream: r for r in (*manifest.ledger, *registers)}
    kept = [r for r in merged.values() if remembered(manifest.limits, r, round)]
    return tuple(sorted(kept, key=lambda r: r.stream))


def remembered(limits: Limits, register: Register, round: int) -> bool:
    """Whether a decision is still in the ledger of a round.

    It stays for ``window`` rounds. By then every delta that could follow an earlier
    decision is based on a round too old to count, so forgetting is safe.
    """
    return round - register.round < limits.window


def room(manifest: Manifest) -> int:
    """How many more streams may be refused before the next round.

    Without it a writer of endless new streams could grow the ledger between two
    rounds; with it a ledger has at most ``2 x per_round x window`` registers.
    """
    taken = sum(r.round == manifest.round + 1 for r in manifest.ledger)
    return max(0, manifest.limits.per_round - taken)


def position(manifest: Manifest, node: str, cursors: tuple[int, ...]) -> int:
    """Where a new stream of a node begins to read its data.

    Behind everything of this node that is decided, and behind what is still listed
    (``cursors``), so that a fresh start does not train on the same batches again.
    """
    decided = [r.cursor for r in manifest.ledger if r.node == node]
    return max((*decided, *cursors), default=0)
