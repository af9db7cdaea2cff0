"""What the round must reduce to in cases that are known.

Of DiLoCo (arXiv:2311.08105) with k nodes, H inner steps, outer rate lr, momentum mu.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from speedtronic.pure.aggregate import aggregate, mean, token_mean
from speedtronic.pure.delta import (
    Delta,
    Weights,
    add,
    apply_delta,
    compute_delta,
    rebase,
    subtract,
)
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule, OuterState, init_outer, outer_step

AVERAGE = OuterRule(learning_rate=1.0, momentum=0.0)
SEEDS = st.integers(0, 2**31)
NODES = st.integers(1, 7)
SHAPES = {"a": (3,), "b.c": (2, 5), "scalar": ()}
DTYPES = st.sampled_from([torch.float32, torch.complex64])


def draw(seed: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator, dtype=dtype)
        for name, shape in SHAPES.items()
    }


def weights(params: dict[str, Tensor]) -> Weights:
    return Weights(params=params, buffers={})


def round_of(
    base: Weights, nodes: list[dict[str, Tensor]], rule: OuterRule
) -> tuple[OuterState, Delta]:
    """One whole round from ``base``: what all nodes reached becomes the next global."""
    deltas = {
        Origin(f"n{number}", "s", 1): compute_delta(base, weights(reached))
        for number, reached in enumerate(nodes)
    }
    found = aggregate(deltas, mean())
    assert found is not None
    state, _ = outer_step(init_outer(base, rule), found, rule)
    return state, found


def close(expected: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    assert expected.keys() == found.keys()
    for name, x in expected.items():
        torch.testing.assert_close(found[name], x, rtol=1e-5, atol=1e-6)


@given(SEEDS, NODES, DTYPES)
def test_averaging(seed: int, count: int, dtype: torch.dtype) -> None:
    """(a) lr = 1, mu = 0: the next global is the mean of what the nodes reached."""
    base = draw(seed, dtype)
    nodes = [draw(seed + 1 + n, dtype) for n in range(count)]
    state, _ = round_of(weights(base), nodes, AVERAGE)
    stacked = {name: torch.stack([x[name] for x in nodes]).mean(0) for name in base}
    close(stacked, state.weights.params)


@given(SEEDS, DTYPES)
def test_one_node_alone(seed: int, dtype: torch.dtype) -> None:
    """(b) k = 1, lr = 1, mu = 0: the next global is the node's model."""
    reached = draw(seed + 1, dtype)
    state, _ = round_of(weights(draw(seed, dtype)), [reached], AVERAGE)
    close(reached, state.weights.params)


@given(SEEDS)
def test_one_node_near_its_base_is_exact(seed: int) -> None:
    """(b) bit for bit where subtraction is exact (Sterbenz): within a factor of two."""
    base = {"w": torch.rand(50, generator=torch.Generator().manual_seed(seed)) + 1.0}
    reached = {"w": base["w"] * 0.75}
    state, _ = round_of(weights(base), [reached], AVERAGE)
    assert torch.equal(reached["w"], state.weights.params["w"])


@given(SEEDS, st.floats(0.01, 1.0))
def test_lookahead(seed: int, rate: float) -> None:
    """(c) k = 1, mu = 0, lr = a: interpolation by a (Lookahead, arXiv:1907.08610)."""
    slow, fast = draw(seed), draw(seed + 1)
    rule = OuterRule(learning_rate=rate, momentum=0.0)
    state, _ = round_of(weights(slow), [fast], rule)
    expected = {name: slow[name] + rate * (fast[name] - slow[name]) for name in slow}
    close(expected, state.weights.params)


@given(SEEDS, NODES, st.floats(1e-3, 0.5))
def test_data_parallel(seed: int, count: int, rate: float) -> None:
    """(d) H = 1, inner SGD, lr = 1, mu = 0: SGD with the averaged gradient."""
    base = draw(seed)
    gradients = [draw(seed + 1 + n) for n in range(count)]
    nodes = [{n: base[n] - rate * g[n] for n in base} for g in gradients]
    state, _ = round_of(weights(base), nodes, AVERAGE)
    total = {n: torch.stack([g[n] for g in gradients]).mean(0) for n in base}
    close({n: base[n] - rate * total[n] for n in base}, state.weights.params)


@given(SEEDS, NODES, st.sampled_from([mean, token_mean]))
def test_equal_nodes(seed: int, count: int, rule: object) -> None:
    """(e) The same work on all nodes: every rule gives the delta of one of them."""
    one = Delta(params=draw(seed), buffers={})
    deltas = {Origin(f"n{n}", "s", 1, tokens=n + 1): one for n in range(count)}
    found = aggregate(deltas, rule())  # type: ignore[operator]
    assert found is not None
    close(one.params, found.params)


@given(SEEDS, NODES, st.randoms(use_true_random=False))
def test_arrival_order(seed: int, count: int, random: object) -> None:
    """(f) Bit for bit the same in any order of arrival."""
    deltas = {
        Origin(f"n{n % 3}", f"s{n % 2}", n, tokens=n + 1): Delta(
            params=draw(seed + n), buffers={"b": torch.full((2,), n / 3)}
        )
        for n in range(count)
    }
    arrived = list(deltas.items())
    random.shuffle(arrived)  # type: ignore[attr-defined]
    for rule in (mean(), token_mean(discount=True)):
        one, other = aggregate(deltas, rule), aggregate(dict(arrived), rule)
        assert one is not None and other is not None
        for name, x in one.params.items():
            assert torch.equal(x, other.params[name])
        assert torch.equal(one.buffers["b"], other.buffers["b"])


@given(SEEDS, NODES, st.integers(1, 10**12))
def test_equal_token_counts_are_the_plain_mean(
    seed: int, count: int, tokens: int
) -> None:
    """Bit for bit, whatever the count is."""
    deltas = {
        Origin(f"n{n}", "s", 1, tokens=tokens): Delta(params=draw(seed + n), buffers={})
        for n in range(count)
    }
    plain, weighted = aggregate(deltas, mean()), aggregate(deltas, token_mean())
    assert plain is not None and weighted is not None
    for name, x in plain.params.items():
        assert torch.equal(x, weighted.params[name])


@given(SEEDS, DTYPES)
def test_deltas_undo_and_add_up(seed: int, dtype: torch.dtype) -> None:
    """apply undoes compute; two parts add up to the whole; what is left is the rest."""
    base, middle, end = (weights(draw(seed + n, dtype)) for n in range(3))
    first, second = compute_delta(base, middle), compute_delta(middle, end)
    whole = compute_delta(base, end)
    close(middle.params, apply_delta(base, first).params)
    close(whole.params, add(first, second).params)
    close(second.params, subtract(whole, first).params)


@given(SEEDS)
def test_progress_is_neither_lost_nor_counted_twice(seed: int) -> None:
    """A cut is counted by the leader; the node keeps exactly what came after it."""
    base, cut_at, now = (weights(draw(seed + n)) for n in range(3))
    cut = compute_delta(base, cut_at)
    state, _ = outer_step(init_outer(base, AVERAGE), cut, AVERAGE)
    remaining = subtract(compute_delta(base, now), cut)
    close(now.params, rebase(state.weights, remaining).params)


@pytest.mark.parametrize(
    "rule",
    [
        OuterRule(learning_rate=0.7, momentum=0.9),
        OuterRule(learning_rate=0.7, momentum=0.9, nesterov=False),
        OuterRule(learning_rate=0.3, momentum=0.0),
    ],
)
@given(seed=SEEDS)
def test_the_outer_step_is_torch_sgd(rule: OuterRule, seed: int) -> None:
    """To rounding, over five steps, momentum included."""
    start = draw(seed)
    theirs = [x.clone().requires_grad_() for x in start.values()]
    optimizer = torch.optim.SGD(
        theirs,
        lr=rule.learning_rate,
        momentum=rule.momentum,
        nesterov=rule.nesterov and rule.momentum > 0,
    )
    state = init_outer(weights(start), rule)
    for step in range(5):
        found = draw(seed + 1 + step)
        for x, gradient in zip(theirs, found.values(), strict=True):
            x.grad = gradient.clone()
        optimizer.step()
        state, _ = outer_step(state, Delta(params=found, buffers={}), rule)
        expected = {n: x.detach() for n, x in zip(start, theirs, strict=True)}
        close(expected, state.weights.params)
    for name, x in zip(state.momentum, theirs, strict=False):
        buffer = optimizer.state[x]["momentum_buffer"]
        torch.testing.assert_close(state.momentum[name], buffer, rtol=1e-5, atol=1e-6)


@given(SEEDS, NODES)
def test_variances_stay_variances(seed: int, count: int) -> None:
    """No rounding takes an averaged buffer of positive numbers below the smallest."""
    generator = torch.Generator().manual_seed(seed)
    scale = 10.0 ** torch.randint(-30, 30, (20,), generator=generator)
    values = torch.rand(count, 20, generator=generator) * scale
    deltas = {
        Origin(f"n{n}", "s", 1, tokens=n + 1): Delta(params={}, buffers={"v": x})
        for n, x in enumerate(values)
    }
    found = aggregate(deltas, token_mean())
    assert found is not None
    assert bool((found.buffers["v"] >= 0).all())
    assert bool((found.buffers["v"] >= values.min(0).values * (1 - 1e-6)).all())
