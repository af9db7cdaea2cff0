"""What rank 0 tells the other ranks of its node to do, and what they hear.

Rank 0 runs the loop and takes every decision: the others do one order after the other
(`speedtronic.shell.rank_follow`). With each order rank 0 hears which of them was asked
to stop by a signal. Whatever keeps rank 0 busy between two steps says `wait` meanwhile,
so that a long silence means that something is wrong.
"""

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import attrs
import torch
from torch import Tensor

from speedtronic.pure.delta import Weights
from speedtronic.pure.inner import InnerState
from speedtronic.shell import generators
from speedtronic.shell.interrupt import Interrupt
from speedtronic.shell.ranks import Ranks, Tag

# The global generators that every process has, and what their states consist of.
_GENERATORS = {
    "python": torch.int64,
    "numpy": torch.int64,
    "torch.cpu": torch.uint8,
}


class Kind(IntEnum):
    """What to do next."""

    START = 1  # from the state that follows
    STEP = 2  # the next step of the node
    INSTALL = 3  # go on with the weights, or at the place in the data, that follow
    WAIT = 4  # for the next order
    END = 5  # with the result that follows


@attrs.frozen
class Order:
    """What a rank after the first has heard."""

    kind: Kind
    share: float | None  # of the time that has passed, in a run bounded in minutes


@attrs.frozen(kw_only=True, eq=False)
class Beginning:
    """What every rank starts from."""

    state: InnerState  # of the node, as rank 0 has it
    counters: Mapping[str, Any]
    data: Mapping[str, Any] | None  # a position to go on from, if not the first one


class Conductor:
    """Rank 0's side: each method is one order to all others.

    Args:
        ranks: of the node.
        interrupt: of this process; it is told of signals that the others got.

    Raises:
        RankError: another rank is gone; from every method.
    """

    def __init__(self, ranks: Ranks, interrupt: Interrupt) -> None:
        self.ranks = ranks
        self._interrupt = interrupt

    def start(self, beginning: Beginning) -> InnerState:
        """Begin; the state comes back laid out as the others have it.

        The others also go on with this process's global generators: a checkpoint holds
        no others, and a resumed run should draw what an unbroken one does.
        """
        self._give(Kind.START)
        captured = generators.capture()
        tensors = {n: x for n, x in captured.tensors.items() if n in _GENERATORS}
        self.ranks.tell(
            {
                "counters": beginning.counters,
                "data": beginning.data,
                "generators": captured.values,
                "tensors": tensors,
            }
        )
        return self.ranks.broadcast(beginning.state)

    def step(self, share: float | None) -> None:
        """Take a step together."""
        self._give(Kind.STEP, share)

    def install(
        self, weights: Weights | None, cursor: int | None, reset_optimizer: bool
    ) -> None:
        """Go on with other weights, which are on the CPU, at another place."""
        self._give(Kind.INSTALL)
        self.ranks.tell(
            {
                "weights": weights is not None,
                "cursor": cursor,
                "reset_optimizer": reset_optimizer,
            }
        )
        if weights is not None:
            self.ranks.broadcast(weights)

    def wait(self) -> None:
        """Say that this rank is alive, and hear of signals."""
        self._give(Kind.WAIT)

    def _give(self, kind: Kind, share: float | None = None) -> None:
        if signal := _give(self.ranks, kind, share):
            self._interrupt.pass_on(signal)


def end(ranks: Ranks, result: Mapping[str, Any]) -> None:
    """Rank 0's last word, at the very end: what ``train`` returns on every rank."""
    _give(ranks, Kind.END)
    ranks.tell(result)


def hear(ranks: Ranks, interrupt: Interrupt) -> Order:
    """The next order, for a rank after the first.

    Args:
        ranks: of the node.
        interrupt: of this process; rank 0 learns of its signal.
    """
    signal = interrupt.number or 0
    _, kind, share = ranks.gather(Tag.ORDER, signal, 0, 0)[0]
    return Order(Kind(int(kind)), None if math.isnan(share) else share)


def hear_beginning(ranks: Ranks, like: InnerState) -> Beginning:
    """What follows `Kind.START`; global generators are set.

    Args:
        ranks: of the node.
        like: a state of the same kind, on this rank's device.
    """
    told = ranks.tell({})
    tensors: dict[str, Tensor] = {
        name: torch.tensor(numbers, dtype=_GENERATORS[name])
        for name, numbers in told["tensors"].items()
    }
    generators.restore(told["generators"], tensors)
    return Beginning(
        state=ranks.broadcast(like), counters=told["counters"], data=told["data"]
    )


def hear_installed(
    ranks: Ranks, like: Weights
) -> tuple[Weights | None, int | None, bool]:
    """What follows `Kind.INSTALL`, as `Stepper.install` takes it.

    Args:
        ranks: of the node.
        like: weights of the same kind, on the CPU.
    """
    told = ranks.tell({})
    weights = ranks.broadcast(like) if told["weights"] else None
    return weights, told["cursor"], told["reset_optimizer"]


def _give(ranks: Ranks, kind: Kind, share: float | None = None) -> int:
    """Give an order, and the number of a signal that another rank got, or 0."""
    number = math.nan if share is None else share
    rows = ranks.gather(Tag.ORDER, 0, kind, number)
    return int(max(row[0] for row in rows))
