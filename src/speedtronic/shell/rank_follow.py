"""The ranks of a node after the first: they do what rank 0 says, and nothing else.

They read their own part of the data and share each step. They have no run folder, no
log, no lane, no hooks and no opinion on when to stop.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import torch

from speedtronic.pure.tree import tree_map
from speedtronic.shell.data import Data
from speedtronic.shell.distributed.node import shared_weights
from speedtronic.shell.interrupt import Interrupt
from speedtronic.shell.rank_orders import Kind, hear, hear_beginning, hear_installed
from speedtronic.shell.ranks import Ranks
from speedtronic.shell.session import Session
from speedtronic.shell.stepper import Counters, Stepper


def follow(ranks: Ranks, session: Session, data: Data) -> Mapping[str, Any]:
    """Train along until rank 0 ends; what it says of the run at the end.

    Args:
        ranks: of the node.
        session: as rank 0 has built it.
        data: of this rank.

    Raises:
        RankError: another rank failed.
    """
    with Interrupt() as interrupt:
        if hear(ranks, interrupt).kind is Kind.START:
            beginning = hear_beginning(ranks, session.initial)
            if beginning.data is not None:
                data.load_state_dict(dict(beginning.data))
            counters = Counters(**beginning.counters)
            stepper = Stepper(session, data, beginning.state, counters, ranks)
            with closing(stepper):
                _obey(stepper, ranks, session, interrupt)
        return ranks.tell({})


def _obey(
    stepper: Stepper, ranks: Ranks, session: Session, interrupt: Interrupt
) -> None:
    while True:
        order = hear(ranks, interrupt)
        if order.kind is Kind.STEP:
            share = None
            if order.share is not None:
                share = torch.tensor(
                    order.share, dtype=torch.float32, device=session.device
                )
            stepper.step(stepper.read(), share)
        elif order.kind is Kind.INSTALL:
            own = shared_weights(session.config, session, stepper.state)
            like = tree_map(lambda x: torch.empty_like(x, device="cpu"), own)
            stepper.install(*hear_installed(ranks, like))
        elif order.kind is Kind.END:
            return
