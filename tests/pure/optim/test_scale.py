"""The pieces that optimizers are chained from."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from speedtronic.pure.optim.base import Clock, Optimizer
from speedtronic.pure.optim.decay import decay_everything
from speedtronic.pure.optim.scale import (
    add_decayed_weights,
    bias_correction,
    clip_by_global_norm,
    descend,
    scale,
    scale_by_adam,
    scale_by_learning_rate,
    trace,
)

CLOCK = Clock(step=torch.tensor(1))
PARAMS = {"w": torch.tensor([[1.0, -2.0]]), "b": torch.tensor([3.0])}
GRADS = {"w": torch.tensor([[0.5, 0.25]]), "b": torch.tensor([-1.0])}


def rising(clock: Clock) -> torch.Tensor:
    return clock.step.to(torch.float32) / 2


def test_every_scalar_can_be_a_schedule() -> None:
    """Factor, learning rate, decay, momentum and norm follow the clock."""
    links = (
        scale(rising),
        scale_by_learning_rate(rising),
        add_decayed_weights(rising),
        trace(rising),
        clip_by_global_norm(rising),
    )
    fixed = (
        scale(0.5),
        scale_by_learning_rate(0.5),
        add_decayed_weights(0.5),
        trace(0.5),
        clip_by_global_norm(0.5),
    )
    for moving, still in zip(links, fixed, strict=True):
        expected, _ = still.update(GRADS, still.init(PARAMS), PARAMS, CLOCK)
        actual, _ = moving.update(GRADS, moving.init(PARAMS), PARAMS, CLOCK)
        assert torch.equal(expected["w"], actual["w"])


def test_scheduled_betas_agree_with_constant_ones() -> None:
    """A beta of 0.5 is exact in float32, so that both ways give the same bits."""
    fixed, moving = scale_by_adam((0.5, 0.5)), scale_by_adam((rising, rising))
    expected, _ = fixed.update(GRADS, fixed.init(PARAMS), PARAMS, CLOCK)
    actual, _ = moving.update(GRADS, moving.init(PARAMS), PARAMS, CLOCK)

    torch.testing.assert_close(expected, actual)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.999, 0.99999])
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_bias_correction_is_accurate_near_zero(beta: float, count: int) -> None:
    """Within 1e-6 of double precision, where ``1 - 0.999 ** 1`` loses 5e-5."""
    expected = 1.0 - beta**count

    actual = float(bias_correction(beta, torch.tensor(count)))
    assert math.isclose(expected, actual, rel_tol=1e-6)


def test_clipping_is_that_of_torch() -> None:
    """As ``clip_grad_norm_``, over all parameters together."""
    leaves = [torch.zeros_like(g).requires_grad_() for g in GRADS.values()]
    for leaf, grad in zip(leaves, GRADS.values(), strict=True):
        leaf.grad = grad.clone()
    torch.nn.utils.clip_grad_norm_(leaves, 0.1)

    actual, _ = clip_by_global_norm(0.1).update(GRADS, (), PARAMS, CLOCK)
    torch.testing.assert_close([leaf.grad for leaf in leaves], list(actual.values()))


def test_small_gradients_are_not_clipped() -> None:
    """A norm below the bound changes no bit."""
    actual, _ = clip_by_global_norm(100.0).update(GRADS, (), PARAMS, CLOCK)

    assert torch.equal(GRADS["w"], actual["w"])


def test_decay_follows_the_learning_rate() -> None:
    """By default a step shrinks a matrix by lr * decay, as in torch.optim."""
    step = descend(scale(0.0), learning_rate=0.5, weight_decay=0.1)
    updates, _ = step.update(GRADS, step.init(PARAMS), PARAMS, CLOCK)

    torch.testing.assert_close(-0.05 * PARAMS["w"], updates["w"])
    assert 0 == updates["b"]


def test_decay_can_ignore_the_learning_rate() -> None:
    """Then a step shrinks a matrix by the decay alone."""
    step = descend(
        scale(0.0),
        learning_rate=0.5,
        weight_decay=0.1,
        weight_decay_follows_schedule=False,
    )
    updates, _ = step.update(GRADS, step.init(PARAMS), PARAMS, CLOCK)

    torch.testing.assert_close(-0.1 * PARAMS["w"], updates["w"])


def test_the_two_kinds_of_decay_share_the_descent() -> None:
    """Without decay the order of the links makes no difference."""
    one = descend(scale(1.0), 0.5, 0.0)
    other = descend(scale(1.0), 0.5, 0.0, weight_decay_follows_schedule=False)

    expected, _ = one.update(GRADS, one.init(PARAMS), PARAMS, CLOCK)
    actual, _ = other.update(GRADS, other.init(PARAMS), PARAMS, CLOCK)
    torch.testing.assert_close(expected, actual)


def test_a_mask_says_what_decays() -> None:
    """With the mask of torch.optim vectors decay too."""
    link = add_decayed_weights(0.1, decay_everything)
    updates, _ = link.update(GRADS, (), PARAMS, CLOCK)

    torch.testing.assert_close(GRADS["b"] + 0.1 * PARAMS["b"], updates["b"])


@pytest.mark.parametrize("follows", [True, False])
def test_cautious_decay_never_works_against_the_step(follows: bool) -> None:
    """Weights decay that the step moves towards zero, and those it does not move."""
    w = {"w": torch.tensor([[2.0, -2.0, 2.0, -2.0, 2.0, 1e-30]])}
    towards = {"w": torch.tensor([[1.0, -1.0, -1.0, 1.0, 0.0, 1e-30]])}
    step = descend(scale(1.0), 0.5, 0.1, decay_everything, follows, cautious_decay=True)
    updates, _ = step.update(towards, step.init(w), w, CLOCK)

    decayed = torch.tensor([[1.0, 1.0, 0.0, 0.0, 1.0, 1.0]])
    rate = 0.05 if follows else 0.1
    expected = -0.5 * towards["w"] - rate * decayed * w["w"]
    torch.testing.assert_close(expected, updates["w"], rtol=1e-6, atol=0.0)


@pytest.mark.parametrize(
    "make, arguments",
    [
        (scale_by_adam, ((1.0, 0.9),)),
        (scale_by_adam, ((0.9, 0.9), -1e-8)),
        (trace, (-0.1,)),
        (add_decayed_weights, (-0.1,)),
        (clip_by_global_norm, (-1.0,)),
        (scale_by_learning_rate, (-1e-3,)),
        (descend, (scale(1.0), -1e-3, 0.0, decay_everything, False)),
    ],
    ids=range(7),
)
def test_constants_out_of_range_are_refused(
    make: Callable[..., Optimizer], arguments: tuple[Any, ...]
) -> None:
    """Where the optimizer is made, not where it is used."""
    with pytest.raises(ValueError, match="expected a number from 0"):
        make(*arguments)
