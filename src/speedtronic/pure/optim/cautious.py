"""Cautious optimizers (arXiv:2411.16085): only steps that the gradient agrees with.

As in Speedtronic 2.0, the entries that stay are not enlarged to make up for those
that were masked, which the paper does. To leave decoupled weight decay unmasked,
wrap the direction and not the whole optimizer::

    descend(cautious(scale_by_adam()), learning_rate=1e-3, weight_decay=0.1)
"""

import torch

from speedtronic.pure.optim.base import Clock, Optimizer, OptState
from speedtronic.pure.types import Params


def cautious(direction: Optimizer) -> Optimizer:
    """Zero the entries of a direction whose sign is not that of the gradient.

    >>> from speedtronic.pure.optim.scale import trace
    >>> careful, clock = cautious(trace(0.9)), Clock(step=torch.tensor(0))
    >>> up, down = {"w": torch.ones(1)}, {"w": -torch.ones(1) / 2}
    >>> updates, heavy = careful.update(up, careful.init(up), up, clock)
    >>> updates, careful.update(down, heavy, up, clock)[0]
    ({'w': tensor([1.])}, {'w': tensor([0.])})
    """

    def update(
        grads: Params, opt_state: OptState, params: Params, clock: Clock
    ) -> tuple[Params, OptState]:
        updates, opt_state = direction.update(grads, opt_state, params, clock)
        # Products of signs cannot underflow, products of values can.
        masked = {
            name: torch.where(u.sign() * grads[name].sign() > 0, u, torch.zeros_like(u))
            for name, u in updates.items()
        }
        return masked, opt_state

    return Optimizer(direction.init, update)
