"""What optimizers share."""

import pytest
import torch

from speedtronic.pure.optim.base import (
    Clock,
    Optimizer,
    apply_updates,
    chain,
    check_range,
    guarded_step,
    value_at,
)
from speedtronic.pure.optim.scale import scale, scale_by_adam, trace
from speedtronic.pure.tree import named_leaves

CLOCK = Clock(step=torch.tensor(3))
PARAMS = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([[3.0]])}
GRADS = {"a": torch.tensor([1.0, -1.0]), "b": torch.tensor([[0.5]])}


def test_a_clock_goes_by_steps_unless_told() -> None:
    """The recorded share of a time-boxed run is optional."""
    assert Clock(step=torch.tensor(0)).progress is None


def test_constants_keep_their_precision() -> None:
    """A constant stays a Python number, which has 53 bits."""
    assert 0.1 == value_at(0.1, CLOCK)


def test_schedules_see_the_clock() -> None:
    """A schedule is asked at every step."""
    assert torch.equal(torch.tensor(6), torch.as_tensor(value_at(_double, CLOCK)))


def _double(clock: Clock) -> torch.Tensor:
    return clock.step * 2


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
def test_a_constant_out_of_range_is_refused(value: float) -> None:
    """The message names the argument, the range and the value."""
    with pytest.raises(ValueError, match=rf"beta: .* 0 to below 1.0, found {value}"):
        check_range("beta", value, below=1.0)


def test_a_chain_feeds_each_link_from_the_one_before() -> None:
    """The updates of a chain are those of its last link."""
    updates, state = chain(scale(2.0), scale(-3.0)).update(
        GRADS, ((), ()), PARAMS, CLOCK
    )

    assert torch.equal(torch.tensor([-6.0, 6.0]), updates["a"])
    assert ((), ()) == state


def test_a_chain_has_one_state_per_link() -> None:
    """The state of each link is found by its place in the chain, then by name."""
    state = chain(scale_by_adam(), scale(1.0)).init({"w": torch.ones(2)})

    expected = ["[0].count", "[0].mean['w']", "[0].square['w']"]
    assert expected == list(named_leaves(state))


def test_moments_are_float32_whatever_the_parameter() -> None:
    """A bfloat16 parameter still has float32 moments."""
    state = scale_by_adam().init({"w": torch.ones(2, dtype=torch.bfloat16)})

    assert torch.float32 == state.mean["w"].dtype == state.square["w"].dtype


def test_an_empty_chain_changes_nothing() -> None:
    """The identity of composition."""
    assert GRADS == chain().update(GRADS, (), PARAMS, CLOCK)[0]


def test_updates_are_added() -> None:
    """A parameter after a step is itself plus its update."""
    assert [2.0, 1.0] == apply_updates(PARAMS, GRADS)["a"].tolist()


def _guarded(optimizer: Optimizer, divisor: float, found_inf: float) -> tuple:
    return guarded_step(
        optimizer,
        GRADS,
        optimizer.init(PARAMS),
        PARAMS,
        CLOCK,
        torch.tensor(divisor),
        torch.tensor(found_inf),
    )


def test_the_guarded_step_divides_gradients_once() -> None:
    """The divisor unscales, averages and clips in one."""
    params, state = _guarded(trace(0.9), divisor=4.0, found_inf=0.0)

    assert torch.equal(GRADS["a"] / 4, state.trace["a"])
    assert torch.equal(PARAMS["a"] + GRADS["a"] / 4, params["a"])


def test_the_guarded_step_keeps_everything_when_told() -> None:
    """After a non-finite gradient neither parameters nor counters move."""
    params, state = _guarded(scale_by_adam(), divisor=0.0, found_inf=1.0)

    assert all(torch.equal(PARAMS[name], params[name]) for name in PARAMS)
    assert 0 == state.count
    assert 0 == state.mean["a"].abs().sum()
