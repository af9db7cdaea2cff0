"""Loss scaling against torch.amp.GradScaler."""

import pytest
import torch

from speedtronic.pure.scaling import ScaleState, init_scale, update_scale


def test_the_first_scale_is_that_of_torch() -> None:
    """2 ** 16, and nothing counted yet."""
    state = init_scale()

    assert torch.amp.GradScaler("cpu").get_scale() == state.scale
    assert 0 == state.good_steps
    assert torch.int64 == state.good_steps.dtype
    assert torch.float32 == state.scale.dtype


def test_scales_are_those_of_torch() -> None:
    """Through overflow, recovery and growth, by running the scaler itself."""
    finite = [True, False, True, True, True, False, False, True, True, True, True]
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
    state = init_scale(8.0)
    for good in finite:
        optimizer.zero_grad()
        scaler.scale(weight.sum() * (1.0 if good else float("inf"))).backward()
        scaler.step(optimizer)
        scaler.update()
        state = update_scale(state, torch.tensor(good), growth_interval=3)
        assert scaler.get_scale() == state.scale


def test_a_scale_never_grows_to_infinity() -> None:
    """The growth is left out, as in torch, and the count starts again."""
    state = ScaleState(scale=torch.tensor(2.0**127), good_steps=torch.tensor(1))
    state = update_scale(state, torch.tensor(True), growth_interval=2)

    assert 2.0**127 == state.scale
    assert 0 == state.good_steps


@pytest.mark.parametrize("initial", [0.0, -1.0, float("nan")])
def test_a_scale_is_positive(initial: float) -> None:
    """A mistake is told before the first step."""
    with pytest.raises(ValueError, match="initial: expected a number above 0"):
        init_scale(initial)
