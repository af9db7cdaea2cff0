"""Every optimizer inside of the inner step: split, scaled, donated, saved, skipped."""

import functools
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from properties.optim.strategies import OPTIMIZERS, SHAPES, names, normal, seeds
from torch import Tensor

from speedtronic.pure.delta import Weights, compute_delta
from speedtronic.pure.gradient import gradient
from speedtronic.pure.inner import InnerState, StepRule, init_inner, inner_step
from speedtronic.pure.optim import begin_again
from speedtronic.pure.optim.average import AveragedState
from speedtronic.pure.outer import OuterRule, init_outer, outer_step
from speedtronic.pure.random import key_from_seed
from speedtronic.pure.scaling import init_scale
from speedtronic.pure.tree import evolve, leaves, named_leaves
from speedtronic.pure.types import Buffers, Key, LossOutput, Params
from speedtronic.shell.checkpoint import Snapshot, load, save
from speedtronic.shell.compile import StepRunner, check_donation

STEPS = 5


def loss(params: Params, buffers: Buffers, batch: Tensor, key: Key) -> LossOutput:
    """A gated layer that is to give back its input, f32[rows, 6]."""
    gate = torch.tanh(batch @ params["gate.weight"].mT)
    hidden = gate * (batch @ params["up.weight"].mT)
    scaled = hidden * params["norm.weight"] * params["scalar"]
    error = scaled @ params["down.weight"].mT - batch
    return LossOutput(
        loss_sum=(error * error).sum(),
        count=torch.tensor(float(batch.numel())),
        metrics={},
        buffers=buffers,
    )


SLOPE = gradient(loss)


def begin(name: str, seed: int, scale: float | None = None) -> InnerState:
    return init_inner(
        OPTIMIZERS[name],
        normal(seed, SHAPES),
        key_from_seed(seed),
        scale=() if scale is None else init_scale(scale),
    )


def rows(seed: int, count: int = 4) -> Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))


def run(name: str, state: InnerState, seed: int, first: int, last: int) -> InnerState:
    for step in range(first, last):
        batch = [rows(seed + step)]
        state, _ = inner_step(SLOPE, OPTIMIZERS[name], state, batch)
    return state


def same_bits(one: object, other: object) -> None:
    pairs = zip(leaves(one), leaves(other), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@given(names, seeds, st.sampled_from([[4], [1, 3], [2, 1, 1]]))
def test_any_split_gives_the_same_step(name: str, seed: int, parts: list[int]) -> None:
    """The sums of gradients are divided once."""
    state, batch = begin(name, seed), rows(seed)
    expected, _ = inner_step(SLOPE, OPTIMIZERS[name], state, [batch])
    actual, _ = inner_step(SLOPE, OPTIMIZERS[name], state, list(batch.split(parts)))

    torch.testing.assert_close(
        named_leaves(expected.params), named_leaves(actual.params), rtol=1e-3, atol=1e-3
    )


@given(names, seeds, st.integers(0, 20))
def test_a_loss_scale_changes_no_bit(name: str, seed: int, exponent: int) -> None:
    """A power of two is divided out exactly."""
    expected = run(name, begin(name, seed), seed, 0, 3)
    actual = run(name, begin(name, seed, 2.0**exponent), seed, 0, 3)

    same_bits(expected.params, actual.params)
    same_bits(expected.optimizer, actual.optimizer)


@given(names, seeds)
def test_donated_equals_pure(name: str, seed: int) -> None:
    """Over several steps and to the bit, with the kernels that a run uses."""
    states = {}
    for donate in (False, True):
        runner = StepRunner(SLOPE, OPTIMIZERS[name], StepRule(), donate=donate)
        states[donate] = begin(name, seed)
        for step in range(STEPS):
            states[donate], _ = runner(states[donate], [rows(seed + step)])

    same_bits(states[False], states[True])


@settings(max_examples=len(OPTIMIZERS))
@given(names, seeds)
def test_every_step_can_be_donated(name: str, seed: int) -> None:
    """No leaf of the new state is one of the old in another place."""
    step = functools.partial(inner_step, SLOPE, OPTIMIZERS[name])

    check_donation(step, begin(name, seed), [rows(seed)])


@given(names, seeds, st.sampled_from([torch.nan, torch.inf]))
def test_a_step_that_is_not_finite_changes_nothing(
    name: str, seed: int, bad: float
) -> None:
    """Averages, slow weights and moments included."""
    before = run(name, begin(name, seed), seed, 0, 3)
    batch = [torch.full((2, 6), bad)]
    after, info = inner_step(SLOPE, OPTIMIZERS[name], before, batch)

    assert not info.applied
    counted = evolve(before, skipped=after.skipped, skipped_in_row=after.skipped_in_row)
    same_bits(counted, after)


@settings(max_examples=2 * len(OPTIMIZERS))
@given(names, seeds, st.integers(1, STEPS - 1))
def test_a_saved_run_goes_on_as_if_nothing_had_been(
    name: str, seed: int, stop: int
) -> None:
    """All of an optimizer's state is in a checkpoint."""
    expected = run(name, begin(name, seed), seed, 0, STEPS)
    stopped = run(name, begin(name, seed), seed, 0, stop)
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Snapshot(run_id="r", step=stop, state=stopped)
        path = save(Path(folder), snapshot)
        state = load(path, begin(name, seed + 1)).state

    same_bits(expected, run(name, state, seed, stop, STEPS))


@given(names, seeds)
def test_a_round_of_one_node_changes_nothing(name: str, seed: int) -> None:
    """An outer step of rate 1 without momentum gives back the node's own weights.

    To the rounding of a difference. An optimizer that begins again after it is as it
    was before the first step, but for its average, which stays.
    """
    begun, rule = begin(name, seed), OuterRule(learning_rate=1.0, momentum=0.0)
    base = Weights(params=begun.params, buffers={})
    trained = run(name, begun, seed, 0, 3)
    delta = compute_delta(base, Weights(params=trained.params, buffers={}))
    outer, _ = outer_step(init_outer(base, rule), delta, rule)
    torch.testing.assert_close(
        trained.params, outer.weights.params, rtol=1e-6, atol=1e-6
    )

    optimizer, params = OPTIMIZERS[name], outer.weights.params
    expected = optimizer.init(params)
    if isinstance(expected, AveragedState):
        expected = evolve(expected, average=trained.optimizer.average)
    same_bits(expected, begin_again(optimizer, trained.optimizer, params))


WHOLE = (  # between them every piece there is
    "muon+, cautious, and adamw",
    "normuon, cautious decay, and adamw",
    "muon and adamw, looking ahead and averaged",
    "muon by polar express, as large as adamw, and cautious adamw",
)


@pytest.fixture(scope="module", params=WHOLE)
def compiled_step(request: pytest.FixtureRequest) -> tuple[str, StepRunner]:
    """A whole step with clipping, traced once and written over its state."""
    torch._dynamo.reset()
    optimizer, rule = OPTIMIZERS[request.param], StepRule(max_norm=1.0)
    runner = StepRunner(SLOPE, optimizer, rule, compiled="aot_eager", warn=pytest.fail)
    return request.param, runner


@settings(max_examples=3, phases=[Phase.generate])  # shrinking would compile again
@given(seed=seeds)
def test_a_compiled_step_is_the_eager_one(
    compiled_step: tuple[str, StepRunner], seed: int
) -> None:
    """Donated, over several steps, to rounding; one graph for all of them."""
    name, compiled = compiled_step
    eager = StepRunner(SLOPE, OPTIMIZERS[name], StepRule(max_norm=1.0), donate=False)
    expected, actual = begin(name, seed), begin(name, seed)
    for step in range(2):
        batch = [rows(seed + step)]
        expected, told = eager(expected, batch)
        actual, info = compiled(actual, batch)
        torch.testing.assert_close(told.loss, info.loss, rtol=1e-4, atol=1e-5)

    torch.testing.assert_close(
        named_leaves(expected.params), named_leaves(actual.params), rtol=1e-3, atol=1e-3
    )
