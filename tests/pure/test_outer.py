"""The outer step, case by case."""

import math

import pytest
import torch

from speedtronic.pure.delta import Delta, Weights
from speedtronic.pure.outer import OuterRule, init_outer, outer_step
from speedtronic.testing.purity import check_pure

NESTEROV = OuterRule(learning_rate=0.5, momentum=0.5)
HEAVY = OuterRule(learning_rate=0.5, momentum=0.5, nesterov=False)
PLAIN = OuterRule(learning_rate=0.5, momentum=0.0)


def weights(x: float) -> Weights:
    return Weights(params={"w": torch.tensor([x])}, buffers={})


def delta(x: float) -> Delta:
    return Delta(params={"w": torch.tensor([x])}, buffers={})


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (NESTEROV, [10 - 0.5 * (1 + 0.5), 9.25 - 0.5 * (1 + 0.5 * 1.5)]),
        (HEAVY, [10 - 0.5, 9.5 - 0.5 * 1.5]),
        (PLAIN, [9.5, 9.0]),
    ],
)
def test_two_steps_by_hand(rule: OuterRule, expected: list[float]) -> None:
    """A delta of 1, twice; every number is exact in float32."""
    state = init_outer(weights(10.0), rule)
    seen = []
    for _ in range(2):
        state, info = outer_step(state, delta(1.0), rule)
        seen.append(state.weights.params["w"].item())
        assert 1.0 == info.delta_norm.item()
    assert (expected, 2) == (seen, state.round.item())


@pytest.mark.parametrize("rule", [NESTEROV, HEAVY, PLAIN])
def test_a_round_without_deltas_changes_nothing(rule: OuterRule) -> None:
    """Neither weights, nor momentum, nor the number of the round."""
    state, _ = outer_step(init_outer(weights(1.0), rule), delta(1.0), rule)
    after, info = outer_step(state, None, rule)
    assert after is state
    assert 0.0 == info.delta_norm.item()


def test_an_absent_node_is_not_a_zero() -> None:
    """A delta of zeros is a vote to stay: momentum still moves the model."""
    state, _ = outer_step(init_outer(weights(1.0), HEAVY), delta(1.0), HEAVY)
    after, _ = outer_step(state, delta(0.0), HEAVY)
    assert after.weights.params["w"].item() == 0.5 - 0.25


def test_the_plain_step_stores_no_momentum() -> None:
    """No memory is spent on what stays zero."""
    assert {} == init_outer(weights(1.0), PLAIN).momentum


def test_buffers_are_set_without_momentum() -> None:
    """Twice the same value gives that value, whatever the learning rate."""
    start = Weights(params={}, buffers={"mean": torch.zeros(1), "n": torch.tensor(1)})
    found = Delta(params={}, buffers={"mean": torch.ones(1)})
    state = init_outer(start, NESTEROV)
    for _ in range(2):
        state, _ = outer_step(state, found, NESTEROV)
        assert 1.0 == state.weights.buffers["mean"].item()
        assert 1 == state.weights.buffers["n"].item()


def test_complex_parameters_move_by_their_parts() -> None:
    """The same numbers as for two real tensors."""
    start = Weights(params={"w": torch.tensor([10 + 10j])}, buffers={})
    found = Delta(params={"w": torch.tensor([1 + 2j])}, buffers={})
    state, info = outer_step(init_outer(start, NESTEROV), found, NESTEROV)
    assert [9.25 + 8.5j] == state.weights.params["w"].tolist()
    assert math.sqrt(5) == pytest.approx(info.delta_norm.item())


def test_a_delta_of_another_model_is_refused() -> None:
    """By path."""
    other = Delta(params={"v": torch.ones(1)}, buffers={})
    with pytest.raises(ValueError, match=r"params\['v'\] is unexpected"):
        outer_step(init_outer(weights(1.0), NESTEROV), other, NESTEROV)


@pytest.mark.parametrize(("made", "used"), [(PLAIN, HEAVY), (NESTEROV, PLAIN)])
def test_momentum_and_rule_must_agree(made: OuterRule, used: OuterRule) -> None:
    """Losing momentum, or inventing it, would change the run silently."""
    with pytest.raises(ValueError, match="the state holds momentum"):
        outer_step(init_outer(weights(1.0), made), delta(1.0), used)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_global_model_is_float32(dtype: torch.dtype) -> None:
    """Anything narrower would swallow small steps; it is told by path."""
    narrow = Weights(params={"w": torch.ones(1, dtype=dtype)}, buffers={})
    with pytest.raises(ValueError, match=r"params\['w'\] is .*float.*expected float32"):
        init_outer(narrow, NESTEROV)


def test_buffers_that_cannot_be_compared_are_refused() -> None:
    """At the start of a run, not in the middle of a round."""
    odd = Weights(params={}, buffers={"n": torch.zeros(1, dtype=torch.uint64)})
    with pytest.raises(ValueError, match=r"buffers\['n'\] is uint64"):
        init_outer(odd, NESTEROV)


@pytest.mark.parametrize(
    "numbers",
    [
        {"learning_rate": 0.0},
        {"learning_rate": -1.0},
        {"learning_rate": float("nan")},
        {"learning_rate": float("inf")},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"momentum": float("nan")},
    ],
)
def test_impossible_rules_are_refused(numbers: dict[str, float]) -> None:
    """With the name of the number."""
    with pytest.raises(ValueError, match=min(numbers)):
        OuterRule(**numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", [NESTEROV, HEAVY, PLAIN])
def test_the_step_is_pure(rule: OuterRule) -> None:
    """The old state stays what it was."""
    state = init_outer(weights(1.0), rule)
    check_pure(lambda s, d: outer_step(s, d, rule), state, delta(1.0))
