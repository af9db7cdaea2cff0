"""The outer step on one machine, against inner steps and outer steps by hand."""

import pytest
import torch
from torch import Tensor

from speedtronic.pure.delta import Weights, compute_delta
from speedtronic.pure.optim.adamw import adamw
from speedtronic.pure.optim.base import Clock, Optimizer, apply_updates, guarded_step
from speedtronic.pure.optim.lookahead import LOOKAHEAD, lookahead
from speedtronic.pure.optim.muon import muon
from speedtronic.pure.optim.sgd import sgd
from speedtronic.pure.outer import OuterRule, init_outer, outer_step

SNOO = OuterRule(learning_rate=0.7, momentum=0.6)
ONE, ZERO = torch.tensor(1.0), torch.tensor(0.0)


def at(step: int) -> Clock:
    return Clock(step=torch.tensor(step))


def start() -> dict[str, Tensor]:
    return {"up.weight": torch.linspace(-1.0, 1.0, 12).view(3, 4), "b": torch.ones(3)}


def grads(step: int) -> dict[str, Tensor]:
    made = torch.Generator().manual_seed(step)
    return {n: torch.randn(p.shape, generator=made) for n, p in start().items()}


def by_hand(
    inner: Optimizer, every: int, rule: OuterRule, steps: int
) -> dict[str, Tensor]:
    """DiLoCo with one node: inner steps, a delta, an outer step, and on from there."""
    params, state = start(), inner.init(start())
    outer = init_outer(Weights(params=start(), buffers={}), rule)
    for step in range(steps):
        updates, state = inner.update(grads(step), state, params, at(step))
        params = apply_updates(params, updates)
        if (step + 1) % every == 0:
            delta = compute_delta(outer.weights, Weights(params=params, buffers={}))
            outer, _ = outer_step(outer, delta, rule)
            params = outer.weights.params
    return params


@pytest.mark.parametrize("rule", [LOOKAHEAD, SNOO], ids=["lookahead", "snoo"])
@pytest.mark.parametrize("every", [1, 3])
def test_it_is_the_outer_step_of_one_node(every: int, rule: OuterRule) -> None:
    """Over two outer steps and a step after them."""
    optimizer, params = lookahead(adamw(0.1), every, rule), start()
    state = optimizer.init(params)
    for step in range(7):
        updates, state = optimizer.update(grads(step), state, params, at(step))
        params = apply_updates(params, updates)

    expected = by_hand(adamw(0.1), every, rule, 7)
    torch.testing.assert_close(expected, params, rtol=1e-6, atol=1e-6)
    assert 7 // every == state.outer.round


def test_between_outer_steps_it_is_the_inner_optimizer() -> None:
    """To the bit."""
    inner, params = sgd(0.1), start()
    optimizer = lookahead(inner, every=3)
    expected, _ = inner.update(grads(0), inner.init(params), params, at(0))
    actual, state = optimizer.update(grads(0), optimizer.init(params), params, at(0))

    assert all(torch.equal(expected[name], actual[name]) for name in params)
    assert torch.equal(params["b"], state.outer.weights.params["b"])


def test_the_fused_form_lands_on_the_slow_weights() -> None:
    """With the bits of the outer step."""
    optimizer, params = lookahead(adamw(0.1), 1, SNOO), start()
    assert optimizer.fused is not None
    after, state = optimizer.fused(
        grads(0), optimizer.init(params), params, at(0), ONE, ZERO
    )

    slow = state.outer.weights.params
    assert all(torch.equal(slow[name], after[name]) for name in params)


def test_with_rate_one_and_no_momentum_it_is_the_inner_optimizer() -> None:
    """The slow weights go all of the way."""
    plain = OuterRule(learning_rate=1.0, momentum=0.0)

    torch.testing.assert_close(
        by_hand(sgd(0.1), 100, plain, 6), by_hand(sgd(0.1), 2, plain, 6)
    )


def test_a_skipped_step_moves_nothing() -> None:
    """Though an outer step was due; it comes with the next step that counts."""
    optimizer, params = lookahead(adamw(0.1), every=1), start()
    assert optimizer.fused is not None
    state = optimizer.init(params)
    nan = {n: torch.full_like(p, torch.nan) for n, p in params.items()}
    for after, kept in (
        optimizer.fused(nan, state, params, at(0), ONE, ONE),
        guarded_step(optimizer, nan, state, params, at(0), ONE, ONE),
    ):
        assert all(torch.equal(params[name], after[name]) for name in params)
        assert 0 == kept.outer.round


def test_the_slow_weights_begin_as_a_copy() -> None:
    """A donated step may write over the parameters."""
    params = start()
    slow = lookahead(sgd(0.1)).init(params).outer.weights.params

    assert all(torch.equal(params[name], slow[name]) for name in params)
    assert all(params[name].data_ptr() != slow[name].data_ptr() for name in params)


def test_the_fused_form_is_that_of_the_optimizer() -> None:
    """It has one if the inner optimizer has one."""
    assert lookahead(adamw(0.1)).fused is not None
    assert lookahead(muon(0.1)).fused is None


def test_mistakes_are_told_at_once() -> None:
    """A period of no steps, and weights that an outer step does not take."""
    with pytest.raises(ValueError, match="every: expected at least 1, found 0"):
        lookahead(sgd(0.1), every=0)
    with pytest.raises(ValueError, match=r"params\['w'\] is bfloat16\[1\], expected f"):
        lookahead(sgd(0.1)).init({"w": torch.ones(1, dtype=torch.bfloat16)})
