"""Positions: which rows a step takes, as integers.

Every epoch holds ``rows`` places. Node n of N owns the places n, n + N, n + 2N, ...
of each epoch: its share. It walks its share ``step_rows`` at a time, and its ranks
take whole micro-batches of a step in turn. So over all nodes, ranks and workers
each place of an epoch is visited exactly once, with one exception, the remainder
rule: with ``drop_last`` the places at the end of a share that do not fill a step
are left out of that epoch. Without it the step is filled from the next epoch.

A node whose number is not known takes `node_key`: an order of its own, over all
places.
"""

import hashlib

import attrs
import torch
from torch import Tensor

from speedtronic.pure.random import fold_in


@attrs.frozen(kw_only=True)
class Share:
    """The part of every epoch that belongs to node ``node`` of ``nodes``.

    >>> Share(node=1, nodes=3).places(8)
    3
    """

    node: int = 0
    nodes: int = 1

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.node < self.nodes:
            raise ValueError(f"node {self.node} is not in [0, {self.nodes})")

    def places(self, rows: int) -> int:
        """How many of ``rows`` places are in the share."""
        return max(0, -(-(rows - self.node) // self.nodes))


@attrs.frozen(kw_only=True)
class Cursor:
    """Where a run stands in its data: at ``step`` it reads ``row`` of ``epoch``.

    ``row`` counts the rows of this node's share. Together with the config and the
    fingerprint of the data these integers determine all that follows.
    """

    step: int = 0
    epoch: int = 0
    row: int = 0


def walk(
    cursor: Cursor, step: int, step_rows: int, share_rows: int, drop_last: bool
) -> Tensor:
    """The rows of a step, as counted along the node's share without end.

    Args:
        cursor: any position of the run at or before ``step``.
        step: the step whose rows are asked for.
        step_rows: rows that this node takes per step.
        share_rows: rows of this node's share of an epoch.
        drop_last: whether an epoch ends with its last full step.

    Returns:
        i64[step_rows]; divided by `usable` they give epoch and row.

    Raises:
        ValueError: if ``step`` lies before the cursor.

    >>> walk(Cursor(), 2, 3, 7, False), walk(Cursor(), 2, 3, 7, True)
    (tensor([6, 7, 8]), tensor([6, 7, 8]))
    >>> usable(7, 3, False), usable(7, 3, True)
    (7, 6)
    """
    if step < cursor.step:
        raise ValueError(f"step {step} lies before the cursor's {cursor.step}")
    length = usable(share_rows, step_rows, drop_last)
    start = cursor.epoch * length + min(cursor.row, length)
    return start + (step - cursor.step) * step_rows + torch.arange(step_rows)


def usable(share_rows: int, step_rows: int, drop_last: bool) -> int:
    """The rows of a share that one epoch uses."""
    return share_rows - share_rows % step_rows if drop_last else share_rows


def cursor_at(
    cursor: Cursor, step: int, step_rows: int, share_rows: int, drop_last: bool
) -> Cursor:
    """The cursor at the start of a later step.

    >>> cursor_at(Cursor(), 3, 3, 7, False)
    Cursor(step=3, epoch=1, row=2)
    """
    first = int(walk(cursor, step, step_rows, share_rows, drop_last)[0])
    epoch, row = divmod(first, usable(share_rows, step_rows, drop_last))
    return Cursor(step=step, epoch=epoch, row=row)


def node_share(name: str, members: tuple[str, ...]) -> Share:
    """The share of a named node among the members that the config names.

    >>> node_share("b", ("c", "a"))
    Share(node=1, nodes=3)
    """
    names = sorted({name, *members})
    return Share(node=names.index(name), nodes=len(names))


def node_key(key: Tensor, name: str) -> Tensor:
    """An order of its own for a node whose fellow nodes are not known, i64[2]."""
    digest = hashlib.sha256(name.encode()).digest()
    return fold_in(key, int.from_bytes(digest[:7], "big"))
