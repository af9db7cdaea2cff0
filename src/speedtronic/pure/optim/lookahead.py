"""The outer step on a single machine: Lookahead (arXiv:1907.08610) and SNOO
(arXiv:2510.15830).

Every so many steps of an inner optimizer the way that it went since the last time is
taken for one pseudo-gradient, and the same `speedtronic.pure.outer.outer_step` that
nodes of a run share moves the *slow* weights along it; training goes on from there.
Without momentum that is Lookahead, with Nesterov momentum it is SNOO: DiLoCo with one
node and without a lane.

The state of the inner optimizer goes on as it is, and buffers are left alone. Every
step computes the outer step, since nothing may wait for the device to say whether it
is due; docs/lab.md says what that costs.
"""

import torch
from torch import Tensor

from speedtronic.pure.delta import Weights, compute_delta
from speedtronic.pure.optim.base import (
    FUNCTIONAL_ADAMW,
    AdamwKernel,
    Clock,
    Optimizer,
    OptState,
    apply_updates,
)
from speedtronic.pure.outer import OuterRule, OuterState, init_outer, outer_step
from speedtronic.pure.tree import Tree, state, tree_map
from speedtronic.pure.types import Params

LOOKAHEAD = OuterRule(learning_rate=0.5, momentum=0.0)


@state
class LookaheadState:
    """The state of the inner optimizer, and the slow weights with their momentum."""

    optimizer: OptState
    outer: OuterState


def lookahead(
    optimizer: Optimizer,
    every: int = 5,
    rule: OuterRule = LOOKAHEAD,
) -> Optimizer:
    """The optimizer with an outer step after every so many of its own.

    The parameters after an outer step are the slow weights: exactly in the fused form,
    else to the rounding of an update that is added. Skipped steps do not count.

    Args:
        optimizer: the inner one.
        every: inner steps per outer step.
        rule: of the outer step; by default Lookahead's.

    Raises:
        ValueError: for ``every`` below 1; from ``init``, for a parameter that is not
            float32.

    >>> from speedtronic.pure.optim.sgd import sgd
    >>> w, clock = {"w": torch.tensor([4.0])}, Clock(step=torch.tensor(4))
    >>> steady = lookahead(sgd(1.0), every=5)
    >>> steady.update({"w": torch.tensor([2.0])}, steady.init(w), w, clock)[0]
    {'w': tensor([-1.])}
    """
    if every < 1:
        raise ValueError(f"every: expected at least 1, found {every}")

    def init(params: Params) -> LookaheadState:
        # A copy: a donated step writes over the parameters.
        slow = {name: value.clone() for name, value in params.items()}
        return LookaheadState(
            optimizer=optimizer.init(params),
            outer=init_outer(Weights(params=slow, buffers={}), rule),
        )

    def meet(outer: OuterState, fast: Params, clock: Clock) -> tuple[Tensor, Tree]:
        """Whether an outer step is due, and what it makes of the outer state."""
        delta = compute_delta(outer.weights, Weights(params=fast, buffers={}))
        return (clock.step + 1) % every == 0, outer_step(outer, delta, rule)[0]

    def update(
        grads: Params, opt_state: LookaheadState, params: Params, clock: Clock
    ) -> tuple[Params, LookaheadState]:
        updates, inner = optimizer.update(grads, opt_state.optimizer, params, clock)
        due, after = meet(opt_state.outer, apply_updates(params, updates), clock)
        pulled = {n: after.weights.params[n] - p for n, p in params.items()}
        updates, outer = _where(due, (pulled, after), (updates, opt_state.outer))
        return updates, LookaheadState(optimizer=inner, outer=outer)

    if optimizer.fused is None:
        return Optimizer(init, update)
    step = optimizer.fused

    def fused(
        grads: Params,
        opt_state: LookaheadState,
        params: Params,
        clock: Clock,
        divisor: Tensor,
        found_inf: Tensor,
        kernel: AdamwKernel = FUNCTIONAL_ADAMW,
    ) -> tuple[Params, LookaheadState]:
        fast, inner = step(
            grads, opt_state.optimizer, params, clock, divisor, found_inf, kernel
        )
        due, after = meet(opt_state.outer, fast, clock)
        changes = due & ~found_inf.bool()
        values, outer = _where(
            changes, (after.weights.params, after), (fast, opt_state.outer)
        )
        return values, LookaheadState(optimizer=inner, outer=outer)

    return Optimizer(init, update, fused)


def _where(condition: Tensor, then: Tree, otherwise: Tree) -> Tree:
    return tree_map(lambda a, b: torch.where(condition, a, b), then, otherwise)
