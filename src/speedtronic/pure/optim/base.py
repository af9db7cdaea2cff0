"""What an optimizer is: a pair of pure functions, and how pairs compose.

``init(params)`` makes the state and ``update`` turns gradients into updates that are
*added* to the parameters, as in optax. Everything is a dict keyed by parameter name,
so a tied weight has one entry and a frozen one has none.

``update`` is the definition. It is written leaf by leaf, so that it runs eagerly,
under ``torch.compile(fullgraph=True)`` and under ``torch.vmap``. An optimizer may
also carry ``fused``, the same step in one kernel. Whether a device has that kernel
and whether its buffers are donated is the shell's to decide; see `Optimizer`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from speedtronic.pure.tree import Tree, state, tree_map
from speedtronic.pure.types import Params

OptState: TypeAlias = Any  # a pytree of tensors


@state
class Clock:
    """Where a run stands when a step begins."""

    step: Tensor  # i64[], finished steps
    progress: Tensor | None = None  # f32[] in [0, 1], share of a time-boxed run


Schedule: TypeAlias = Callable[[Clock], Tensor]  # gives f32[]
Hyperparameter: TypeAlias = float | Schedule

Init: TypeAlias = Callable[[Params], OptState]
Update: TypeAlias = Callable[[Params, OptState, Params, Clock], tuple[Params, OptState]]
AdamwKernel: TypeAlias = Callable[..., Any]  # called as FUNCTIONAL_ADAMW is
FUNCTIONAL_ADAMW: AdamwKernel = torch.ops.aten._fused_adamw.tensor_lr


class FusedStep(Protocol):
    """The whole of `guarded_step` with a fused kernel."""

    def __call__(
        self,
        grads: Params,
        opt_state: OptState,
        params: Params,
        clock: Clock,
        divisor: Tensor,
        found_inf: Tensor,
        kernel: AdamwKernel = FUNCTIONAL_ADAMW,
    ) -> tuple[Params, OptState]:
        """One step, or no change at all."""
        ...


class Optimizer(NamedTuple):
    """An algorithm as functions of values.

    ``update(grads, opt_state, params, clock) -> (updates, opt_state)`` wants true
    gradients: unscaled, averaged, clipped.

    ``fused(grads, opt_state, params, clock, divisor, found_inf) -> (params,
    opt_state)`` is the whole of `guarded_step` in one kernel, or None where there is
    no such kernel. ``divisor`` (f32[]) divides every gradient: loss scale times
    target count over clip coefficient. ``found_inf`` (f32[], 0 or 1) keeps
    everything as it was, counters included, bit for bit. The functional kernel
    allocates as much as the formula does; the shell may pass another ``kernel`` that
    has the same arguments and results but writes over donated buffers.
    """

    init: Init
    update: Update
    fused: FusedStep | None = None


def value_at(hyperparameter: Hyperparameter, clock: Clock) -> float | Tensor:
    """A hyperparameter's value now: a constant as it is, a schedule as f32[].

    >>> value_at(0.1, Clock(step=torch.tensor(0)))
    0.1
    >>> value_at(lambda clock: 1.0 / (clock.step + 1), Clock(step=torch.tensor(1)))
    tensor(0.5000)
    """
    return hyperparameter(clock) if callable(hyperparameter) else hyperparameter


def check_range(
    name: str, hyperparameter: Hyperparameter, below: float = math.inf
) -> None:
    """Raise ValueError unless a constant is in [0, below); schedules are not asked.

    >>> check_range("momentum", 1.5, below=1.0)
    Traceback (most recent call last):
    ValueError: momentum: expected a number from 0 to below 1.0, found 1.5
    """
    if not callable(hyperparameter) and not 0 <= hyperparameter < below:
        raise ValueError(
            f"{name}: expected a number from 0 to below {below}, "
            f"found {hyperparameter!r}"
        )


def stateless(transform: Callable[[Params, Params, Clock], Params]) -> Optimizer:
    """An optimizer that remembers nothing, from ``(grads, params, clock) -> updates``.

    >>> same = stateless(lambda grads, params, clock: grads)
    >>> ones = {"w": torch.ones(1)}
    >>> same.update(ones, same.init(ones), ones, Clock(step=torch.tensor(0)))
    ({'w': tensor([1.])}, ())
    """

    def update(
        grads: Params, opt_state: OptState, params: Params, clock: Clock
    ) -> tuple[Params, OptState]:
        return transform(grads, params, clock), opt_state

    return Optimizer(lambda params: (), update)


def chain(*optimizers: Optimizer) -> Optimizer:
    """One optimizer that feeds the updates of each into the next.

    The state is a tuple with one entry per link.
    """

    def init(params: Params) -> OptState:
        return tuple(link.init(params) for link in optimizers)

    def update(
        grads: Params, opt_state: OptState, params: Params, clock: Clock
    ) -> tuple[Params, OptState]:
        updates, states = grads, []
        for link, link_state in zip(optimizers, opt_state, strict=True):
            updates, new_state = link.update(updates, link_state, params, clock)
            states.append(new_state)
        return updates, tuple(states)

    return Optimizer(init, update)


def apply_updates(params: Params, updates: Params) -> Params:
    """The parameters after a step.

    >>> apply_updates({"w": torch.ones(2)}, {"w": torch.tensor([-1.0, 1.0])})
    {'w': tensor([0., 2.])}
    """
    return {name: value + updates[name] for name, value in params.items()}


def guarded_step(
    optimizer: Optimizer,
    grads: Params,
    opt_state: OptState,
    params: Params,
    clock: Clock,
    divisor: Tensor,
    found_inf: Tensor,
) -> tuple[Params, OptState]:
    """One step by the definition, or no change at all: what ``fused`` must equal.

    Args:
        optimizer: whose ``update`` is used.
        grads: f32, sums that ``divisor`` turns into true gradients.
        opt_state: the optimizer's state.
        params: f32.
        clock: when.
        divisor: f32[].
        found_inf: f32[], 1 if some gradient is not finite.

    >>> same, clock = stateless(lambda g, p, c: g), Clock(step=torch.tensor(0))
    >>> w, two, one = {"w": torch.ones(1)}, torch.tensor(2.0), torch.tensor(1.0)
    >>> guarded_step(same, w, (), w, clock, divisor=two, found_inf=0 * one)
    ({'w': tensor([1.5000])}, ())
    >>> guarded_step(same, w, (), w, clock, divisor=two, found_inf=one)
    ({'w': tensor([1.])}, ())
    """
    true_grads = {name: grad / divisor for name, grad in grads.items()}
    updates, new_state = optimizer.update(true_grads, opt_state, params, clock)
    new_params = apply_updates(params, updates)
    hold = found_inf.bool()

    def keep(old: Tensor, new: Tensor) -> Tensor:
        return torch.where(hold, old, new)

    kept: tuple[Tree, Tree] = tree_map(
        keep, (params, opt_state), (new_params, new_state)
    )
    return kept
