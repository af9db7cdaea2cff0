"""The sums of one step over all ranks of a node, between the halves of the step.

Two messages per rank pair, as in any all-reduce: its part of the gradient to every
rank, and the added part back. What is added to what, in which order, is defined in
`speedtronic.pure.packing`, so the bits do not depend on the backend.

Buffers are not added: those of the last rank count, which has the step's last
micro-batch; `Accumulated` says the same of micro-batches in one process.
"""

import hashlib

import attrs

from speedtronic.errors import ModelError
from speedtronic.pure.inner import Accumulated
from speedtronic.pure.packing import add_parts, pack, unpack
from speedtronic.pure.tree import evolve
from speedtronic.shell.ranks import Ranks, Tag


@attrs.frozen(kw_only=True)
class Counts:
    """What is counted where batches are made, without asking a device."""

    samples: int = 0
    tokens: int = 0


def sum_over_ranks(
    ranks: Ranks, total: Accumulated, counts: Counts
) -> tuple[Accumulated, Counts]:
    """The node's sums, the same bits on every rank.

    Args:
        ranks: all of them call this in the same step.
        total: of this rank's micro-batches.
        counts: of this rank's micro-batches.

    Raises:
        ModelError: the ranks' shares have different metrics.
        RankError: another rank is gone.
    """
    names = _digest(total)
    rows = ranks.gather(Tag.COUNTS, counts.samples, counts.tokens, names)
    if len({row[2] for row in rows}) > 1:
        raise ModelError(
            "model.name: the model gives other metrics on other ranks; give all of them"
            " for every micro-batch"
        )
    targets = ranks.collect(total.count.reshape(1), total.count.new_empty(len(rows)))
    packed = pack(total, len(rows))
    added = add_parts(ranks.exchange(packed), targets)
    summed = unpack(ranks.collect(added, packed), total)
    last = len(rows) - 1
    whole = evolve(summed, buffers=ranks.broadcast(total.buffers, source=last))
    return whole, Counts(
        samples=int(sum(row[0] for row in rows)),
        tokens=int(sum(row[1] for row in rows)),
    )


def _digest(total: Accumulated) -> int:
    """Of what may differ between ranks that have the same model, below 2**48."""
    text = "\n".join(sorted(total.metrics))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
