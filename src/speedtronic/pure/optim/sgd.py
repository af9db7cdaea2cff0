"""Stochastic gradient descent, plain or with momentum."""

from speedtronic.pure.optim.base import Hyperparameter, Optimizer, chain
from speedtronic.pure.optim.decay import DecayMask, decay_mask
from speedtronic.pure.optim.scale import (
    add_decayed_weights,
    scale_by_learning_rate,
    trace,
)


def sgd(
    learning_rate: Hyperparameter = 1e-3,
    momentum: Hyperparameter = 0.0,
    nesterov: bool = False,
    weight_decay: Hyperparameter = 0.0,
    mask: DecayMask = decay_mask,
) -> Optimizer:
    """SGD with the defaults of ``torch.optim.SGD``, but for what decays.

    As there, weight decay is not decoupled: it is added to the gradient, before
    momentum. Dampening is deliberately absent.

    >>> import torch
    >>> from speedtronic.pure.optim.base import Clock
    >>> w, optimizer = {"w": torch.ones(1)}, sgd(0.5)
    >>> clock = Clock(step=torch.tensor(0))
    >>> optimizer.update(w, optimizer.init(w), w, clock)[0]
    {'w': tensor([-0.5000])}
    """
    return chain(
        add_decayed_weights(weight_decay, mask),
        trace(momentum, nesterov),
        scale_by_learning_rate(learning_rate),
    )
