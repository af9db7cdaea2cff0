"""The pieces that optimizers are chained from.

A *direction* is a chain of pieces that points uphill, like the gradient;
`descend` adds decoupled weight decay to one and turns it into updates.
"""

import math

import torch
from torch import Tensor

from speedtronic.pure.optim.base import (
    Clock,
    Hyperparameter,
    Optimizer,
    chain,
    check_range,
    stateless,
    value_at,
)
from speedtronic.pure.optim.decay import DecayMask, decay_mask
from speedtronic.pure.tree import global_norm, state
from speedtronic.pure.types import Params


@state
class AdamState:
    """Running means of the gradient and of its square."""

    count: Tensor  # i64[], updates so far, which bias correction needs
    mean: Params  # f32
    square: Params  # f32


@state
class TraceState:
    """The momentum buffer."""

    trace: Params  # f32


def scale(factor: Hyperparameter) -> Optimizer:
    """Multiply by a number.

    >>> ones, clock = {"w": torch.ones(1)}, Clock(step=torch.tensor(0))
    >>> scale(-0.5).update(ones, (), ones, clock)[0]
    {'w': tensor([-0.5000])}
    """
    return stateless(
        lambda grads, params, clock: _multiply(grads, value_at(factor, clock))
    )


def scale_by_learning_rate(learning_rate: Hyperparameter) -> Optimizer:
    """Multiply by minus the learning rate: the direction becomes a descent.

    >>> ones, clock = {"w": torch.ones(1)}, Clock(step=torch.tensor(0))
    >>> scale_by_learning_rate(0.5).update(ones, (), ones, clock)[0]
    {'w': tensor([-0.5000])}
    """
    check_range("learning_rate", learning_rate)
    return stateless(
        lambda grads, params, clock: _multiply(grads, -value_at(learning_rate, clock))
    )


def scale_by_adam(
    betas: tuple[Hyperparameter, Hyperparameter] = (0.9, 0.999), eps: float = 1e-8
) -> Optimizer:
    """The direction of Adam (arXiv:1412.6980, algorithm 1), without a step size.

    ``m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)``. As in torch.optim, a beta that
    moves is used as it is now for the whole bias correction.

    >>> ones, adam = {"w": torch.ones(1)}, scale_by_adam()
    >>> first, _ = adam.update(ones, adam.init(ones), ones, Clock(step=torch.tensor(0)))
    >>> first["w"].round(decimals=5)
    tensor([1.])
    """
    for name, beta in zip(("betas[0]", "betas[1]"), betas, strict=True):
        check_range(name, beta, below=1.0)
    check_range("eps", eps)

    def init(params: Params) -> AdamState:
        return AdamState(
            count=_zero(params), mean=_zeros(params), square=_zeros(params)
        )

    def update(
        grads: Params, opt_state: AdamState, params: Params, clock: Clock
    ) -> tuple[Params, AdamState]:
        del params
        beta1, beta2 = (value_at(beta, clock) for beta in betas)
        count = opt_state.count + 1
        mean = {n: opt_state.mean[n].lerp(g, 1 - beta1) for n, g in grads.items()}
        square = {
            n: opt_state.square[n].lerp(g * g, 1 - beta2) for n, g in grads.items()
        }
        mean_part = bias_correction(beta1, count)
        root_part = bias_correction(beta2, count).sqrt()
        updates = {
            n: (mean[n] / mean_part) / (square[n].sqrt() / root_part + eps)
            for n in grads
        }
        return updates, AdamState(count=count, mean=mean, square=square)

    return Optimizer(init, update)


def bias_correction(beta: float | Tensor, count: Tensor) -> Tensor:
    """``1 - beta ** count`` as f32, accurate also where that is close to 0.

    In float32, ``1 - 0.999 ** 1`` is wrong by 5e-5 of itself, ``expm1`` by 1e-7.

    >>> bias_correction(0.5, torch.tensor(2))
    tensor(0.7500)
    """
    if isinstance(beta, Tensor):
        log_beta: float | Tensor = beta.log()
    else:
        log_beta = math.log(beta) if beta > 0 else -math.inf
    return -torch.expm1(count.to(torch.float32) * log_beta)


def trace(momentum: Hyperparameter, nesterov: bool = False) -> Optimizer:
    """Momentum as in ``torch.optim.SGD`` without dampening: ``b = m b + g``.

    >>> ones, heavy = {"w": torch.ones(1)}, trace(0.9, nesterov=True)
    >>> heavy.update(ones, heavy.init(ones), ones, Clock(step=torch.tensor(0)))[0]
    {'w': tensor([1.9000])}
    """
    check_range("momentum", momentum)

    def init(params: Params) -> TraceState:
        return TraceState(trace=_zeros(params))

    def update(
        grads: Params, opt_state: TraceState, params: Params, clock: Clock
    ) -> tuple[Params, TraceState]:
        del params
        factor = value_at(momentum, clock)
        buffers = {n: g + factor * opt_state.trace[n] for n, g in grads.items()}
        updates = buffers
        if nesterov:
            updates = {n: g + factor * buffers[n] for n, g in grads.items()}
        return updates, TraceState(trace=buffers)

    return Optimizer(init, update)


def add_decayed_weights(
    weight_decay: Hyperparameter,
    mask: DecayMask = decay_mask,
    cautious: bool = False,
) -> Optimizer:
    """Add ``weight_decay * parameter`` to the updates of the parameters that decay.

    Args:
        weight_decay: what the parameters are multiplied by.
        mask: which parameters decay.
        cautious: only where the step moves the weight towards zero already, or not at
            all (cautious weight decay, arXiv:2510.12402): no decay works against it.

    >>> w, clock = {"w": torch.ones(1, 2)}, Clock(step=torch.tensor(0))
    >>> step = {"w": torch.tensor([[1.0, -1.0]])}
    >>> add_decayed_weights(0.1).update(step, (), w, clock)[0]
    {'w': tensor([[ 1.1000, -0.9000]])}
    >>> add_decayed_weights(0.1, cautious=True).update(step, (), w, clock)[0]
    {'w': tensor([[ 1.1000, -1.0000]])}
    """
    check_range("weight_decay", weight_decay)

    def transform(grads: Params, params: Params, clock: Clock) -> Params:
        rate, decayed = value_at(weight_decay, clock), mask(params)

        def decay(update: Tensor, parameter: Tensor) -> Tensor:
            more = update + rate * parameter
            if not cautious:
                return more
            # Products of signs cannot underflow, products of values can.
            return torch.where(update.sign() * parameter.sign() >= 0, more, update)

        return {n: decay(g, params[n]) if decayed[n] else g for n, g in grads.items()}

    return stateless(transform)


def clip_by_global_norm(max_norm: Hyperparameter) -> Optimizer:
    """Shrink all gradients together so that their joint norm is at most ``max_norm``.

    >>> w, clock = {"w": torch.tensor([3.0, 4.0])}, Clock(step=torch.tensor(0))
    >>> clip_by_global_norm(1.0).update(w, (), w, clock)[0]
    {'w': tensor([0.6000, 0.8000])}
    """
    check_range("max_norm", max_norm)
    return stateless(
        lambda grads, params, clock: _multiply(
            grads, clip_coefficient(global_norm(grads), value_at(max_norm, clock))
        )
    )


def clip_coefficient(norm: Tensor, max_norm: float | Tensor) -> Tensor:
    """What gradients of global norm ``norm`` are multiplied by, f32[] in (0, 1].

    The formula of ``torch.nn.utils.clip_grad_norm_``, with its 1e-6.

    >>> clip_coefficient(torch.tensor(4.0), max_norm=1.0)
    tensor(0.2500)
    >>> clip_coefficient(torch.tensor(0.5), max_norm=1.0)
    tensor(1.)
    """
    return (max_norm / (norm + 1e-6)).clamp(max=1.0)


def descend(
    direction: Optimizer,
    learning_rate: Hyperparameter,
    weight_decay: Hyperparameter = 0.0,
    mask: DecayMask = decay_mask,
    weight_decay_follows_schedule: bool = True,
    cautious_decay: bool = False,
) -> Optimizer:
    """Follow a direction downhill, with decoupled weight decay (arXiv:1711.05101).

    The decay per step is ``learning_rate * weight_decay``, as in torch.optim; with
    ``weight_decay_follows_schedule=False`` it is ``weight_decay`` alone, whatever the
    learning rate does. For ``cautious_decay`` see `add_decayed_weights`.

    >>> w, clock = {"w": torch.ones(1, 1)}, Clock(step=torch.tensor(0))
    >>> step = descend(scale(1.0), learning_rate=0.1, weight_decay=0.5)
    >>> step.update({"w": torch.ones(1, 1)}, step.init(w), w, clock)[0]
    {'w': tensor([[-0.1500]])}
    """
    decay = add_decayed_weights(weight_decay, mask, cautious_decay)
    if weight_decay_follows_schedule:
        return chain(direction, decay, scale_by_learning_rate(learning_rate))
    check_range("learning_rate", learning_rate)
    return chain(direction, scale(learning_rate), decay, scale(-1.0))


def _multiply(grads: Params, factor: float | Tensor) -> Params:
    return {name: grad * factor for name, grad in grads.items()}


def _zeros(params: Params) -> Params:
    return {n: torch.zeros_like(p, dtype=torch.float32) for n, p in params.items()}


def _zero(params: Params) -> Tensor:
    """A counter on the device of the parameters."""
    device = next((p.device for p in params.values()), None)
    return torch.zeros((), dtype=torch.int64, device=device)
