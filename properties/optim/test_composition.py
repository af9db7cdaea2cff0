"""What holds for every optimizer, and for how they compose."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from properties.optim.strategies import (
    OPTIMIZERS,
    RATE,
    SHAPES,
    Params,
    names,
    normal,
    seeds,
    shapes,
)
from torch import Tensor

from speedtronic.pure.config.optimizer import Optimizer as Section
from speedtronic.pure.optim import (
    ROLES,
    Clock,
    Optimizer,
    OptState,
    adamw,
    add_decayed_weights,
    apply_updates,
    cautious,
    chain,
    guarded_step,
    optimizer_from_config,
    partition,
    scale_by_adam,
    scale_by_muon,
    sgd,
    trace,
)
from speedtronic.pure.tree import check_same, leaves, named_leaves, tree_map
from speedtronic.testing.purity import check_pure

steps = st.integers(0, 20)
fused = st.sampled_from([name for name in OPTIMIZERS if OPTIMIZERS[name].fused])
# Those without a sum over parameters or a batch of matrices, which have an order.
by_leaf = st.sampled_from(
    [name for name in OPTIMIZERS if "clipped" not in name and "muon" not in name]
)


def after_two_steps(optimizer: Optimizer, seed: int) -> tuple[Params, OptState]:
    params = normal(seed, SHAPES)
    state = optimizer.init(params)
    for step in range(2):
        clock = Clock(step=torch.tensor(step))
        grads = normal(seed + step + 1, SHAPES)
        updates, state = optimizer.update(grads, state, params, clock)
        params = apply_updates(params, updates)
    return params, state


@given(names, seeds, steps)
def test_updates_are_pure(name: str, seed: int, step: int) -> None:
    """No argument is written to and no hidden randomness drawn."""
    optimizer = OPTIMIZERS[name]
    params, state = after_two_steps(optimizer, seed)
    clock = Clock(step=torch.tensor(step))

    check_pure(optimizer.init, params)
    check_pure(optimizer.update, normal(seed + 9, SHAPES), state, params, clock)
    if optimizer.fused is not None:
        one, zero = torch.tensor(1.0), torch.tensor(0.0)
        grads = normal(seed + 9, SHAPES)
        check_pure(optimizer.fused, grads, state, params, clock, one, zero)


@given(names, seeds)
def test_states_keep_their_shape(name: str, seed: int) -> None:
    """Every leaf keeps its path, shape and dtype from the first step on."""
    optimizer = OPTIMIZERS[name]
    _, state = after_two_steps(optimizer, seed)

    check_same("state", optimizer.init(normal(seed, SHAPES)), state)


@given(fused, seeds, steps, st.floats(0.1, 1e5))
def test_a_kernel_equals_its_definition(
    name: str, seed: int, step: int, divisor: float
) -> None:
    """To rounding; and a skipped step is the identity, to the bit."""
    optimizer = OPTIMIZERS[name]
    assert optimizer.fused is not None
    params, state = after_two_steps(optimizer, seed)
    clock, by = Clock(step=torch.tensor(step)), torch.tensor(divisor)
    grads = normal(seed + 9, SHAPES)
    zero, one = torch.tensor(0.0), torch.tensor(1.0)

    expected = guarded_step(optimizer, grads, state, params, clock, by, zero)
    actual = optimizer.fused(grads, state, params, clock, by, zero)
    torch.testing.assert_close(
        named_leaves(expected), named_leaves(actual), rtol=5e-6, atol=1e-6
    )
    kept = leaves(optimizer.fused(grads, state, params, clock, by, one))
    same = zip(leaves((params, state)), kept, strict=True)
    assert all(torch.equal(a, b) for a, b in same)


@given(names, seeds)
def test_a_batch_of_replicas_is_each_alone(name: str, seed: int) -> None:
    """Under vmap, as in a loop."""
    optimizer = OPTIMIZERS[name]
    clock = Clock(step=torch.tensor(4))
    replicas = [after_two_steps(optimizer, seed + 10 * i) for i in range(3)]
    grads = [normal(seed + 100 + i, SHAPES) for i in range(3)]
    params, states = zip(*replicas, strict=True)

    looped = [
        optimizer.update(g, s, p, clock)
        for g, s, p in zip(grads, states, params, strict=True)
    ]
    stacked = [
        tree_map(lambda *leaves: torch.stack(leaves), *trees)
        for trees in (grads, states, params)
    ]
    batched = torch.vmap(lambda g, s, p: optimizer.update(g, s, p, clock))(*stacked)
    for i in range(3):
        mine = tree_map(lambda leaf, i=i: leaf[i], batched)
        torch.testing.assert_close(
            named_leaves(looped[i]), named_leaves(mine), rtol=1e-4, atol=1e-5
        )


@given(by_leaf, seeds, st.permutations(sorted(SHAPES)))
def test_order_does_not_matter(name: str, seed: int, order: list[str]) -> None:
    """Parameters are told apart by name: any order gives the same bits."""
    optimizer = OPTIMIZERS[name]
    params, grads = normal(seed, SHAPES), normal(seed + 1, SHAPES)
    clock = Clock(step=torch.tensor(0))
    expected, _ = optimizer.update(grads, optimizer.init(params), params, clock)

    shuffled = {name: params[name] for name in order}
    turned = {name: grads[name] for name in order}
    actual, _ = optimizer.update(turned, optimizer.init(shuffled), shuffled, clock)
    assert order == list(actual)
    assert all(torch.equal(expected[name], actual[name]) for name in order)


@given(names, seeds, st.permutations(sorted(SHAPES)))
def test_order_is_a_matter_of_rounding(name: str, seed: int, order: list[str]) -> None:
    """Where matrices are batched or norms summed, too, in whole steps and states."""
    optimizer = OPTIMIZERS[name]
    params, state = after_two_steps(optimizer, seed)
    clock, grads = Clock(step=torch.tensor(2)), normal(seed + 9, SHAPES)
    expected = optimizer.update(grads, state, params, clock)

    shuffled = {name: params[name] for name in order}
    turned = tree_map(lambda zero, leaf: leaf, optimizer.init(shuffled), state)
    actual = optimizer.update({n: grads[n] for n in order}, turned, shuffled, clock)
    assert order == list(actual[0])
    torch.testing.assert_close(
        named_leaves(expected), named_leaves(actual), rtol=1e-4, atol=1e-5
    )


@given(seeds, shapes())
def test_a_partition_into_equals_is_no_partition(
    seed: int, shapes: dict[str, tuple[int, ...]]
) -> None:
    """Splitting a dict, stepping and merging commute."""
    params, grads = normal(seed, shapes), normal(seed + 1, shapes)
    clock = Clock(step=torch.tensor(0))
    labels = {name: "ab"[i % 2] for i, name in enumerate(params)}
    whole = adamw(0.1)
    parts = partition({"a": whole, "b": whole}, labels)

    expected, _ = whole.update(grads, whole.init(params), params, clock)
    actual, _ = parts.update(grads, parts.init(params), params, clock)
    assert list(params) == list(actual)
    assert all(torch.equal(expected[name], actual[name]) for name in params)


@given(seeds, shapes(), st.data())
def test_a_partition_covers_each_parameter_once(
    seed: int, shapes: dict[str, tuple[int, ...]], data: st.DataObject
) -> None:
    """Whatever the labels: one momentum entry per parameter, in its own group."""
    groups = {name: sgd(0.1, momentum=0.9) for name in "abc"}
    labels = {name: data.draw(st.sampled_from("abc")) for name in shapes}
    state = partition(groups, labels).init(normal(seed, shapes))

    found = [(name, group) for group in "abc" for name in state[group][1].trace]
    assert sorted(labels.items()) == sorted(found)


@given(seeds)
def test_chains_associate(seed: int) -> None:
    """How links are grouped changes no bit."""
    a, b, c = scale_by_adam(), trace(0.5), sgd(0.1)
    params, grads = normal(seed, SHAPES), normal(seed + 1, SHAPES)
    clock = Clock(step=torch.tensor(0))

    results = []
    for optimizer in (chain(chain(a, b), c), chain(a, chain(b, c)), chain(a, b, c)):
        state = optimizer.init(params)
        results.append(optimizer.update(grads, state, params, clock)[0])
    for name in params:
        assert torch.equal(results[0][name], results[1][name])
        assert torch.equal(results[0][name], results[2][name])


@given(seeds, shapes(), st.floats(0.0, 1.0), st.floats(0.0, 0.5))
def test_zero_gradients_only_shrink_matrices(
    seed: int, shapes: dict[str, tuple[int, ...]], rate: float, decay: float
) -> None:
    """By ``1 - lr * decay``; everything else keeps its bits."""
    optimizer, params = adamw(rate, weight_decay=decay), normal(seed, shapes)
    zeros = {name: torch.zeros_like(p) for name, p in params.items()}
    clock = Clock(step=torch.tensor(0))
    updates, _ = optimizer.update(zeros, optimizer.init(params), params, clock)

    for name, after in apply_updates(params, updates).items():
        if after.ndim < 2:
            assert torch.equal(params[name], after)
        else:
            expected = params[name].double() * (1 - rate * decay)
            torch.testing.assert_close(
                expected, after.double(), rtol=2.5e-7, atol=1e-45
            )


@given(seeds)
def test_caution_changes_nothing_where_signs_agree(seed: int) -> None:
    """A direction that never disagrees with its gradient keeps its bits."""
    params, grads = normal(seed, SHAPES), normal(seed + 1, SHAPES)
    clock = Clock(step=torch.tensor(0))
    for base in (scale_by_adam(), trace(0.9)):  # their first step has its signs
        careful = cautious(base)
        expected, _ = base.update(grads, base.init(params), params, clock)
        actual, _ = careful.update(grads, careful.init(params), params, clock)
        assert all(torch.equal(expected[name], actual[name]) for name in params)


@given(seeds)
def test_caution_never_directionsagainst_the_gradient(seed: int) -> None:
    """Every entry is the base's or zero, and is uphill or zero."""
    shapes = {name: shape for name, shape in SHAPES.items() if len(shape) == 2}
    params, grads = normal(seed, shapes), normal(seed + 1, shapes)
    clock, base = Clock(step=torch.tensor(0)), scale_by_muon()
    expected, _ = base.update(grads, base.init(params), params, clock)
    actual, _ = cautious(base).update(grads, base.init(params), params, clock)

    for name in params:
        kept = actual[name] != 0
        assert torch.equal(expected[name][kept], actual[name][kept])
        assert bool((actual[name] * grads[name] >= 0).all())


@given(seeds, st.floats(0.0, 0.5))
def test_cautious_decay_is_decay_or_nothing(seed: int, rate: float) -> None:
    """Per entry; and where step and weight agree in sign it is the whole decay."""
    params, directions = normal(seed, SHAPES), normal(seed + 1, SHAPES)
    clock = Clock(step=torch.tensor(0))
    plain, careful = (add_decayed_weights(rate, cautious=c) for c in (False, True))

    everything, _ = plain.update(directions, (), params, clock)
    actual, _ = careful.update(directions, (), params, clock)
    for name, step in directions.items():
        agree = step * params[name] >= 0
        expected = torch.where(agree, everything[name], step)
        assert torch.equal(expected, actual[name])


@given(seeds, shapes(), st.data())
def test_every_role_has_one_optimizer(
    seed: int, shapes: dict[str, tuple[int, ...]], data: st.DataObject
) -> None:
    """Whatever roles say: Muon gets matrices only, and nothing twice or never."""
    params = normal(seed, shapes)
    roles = {name: data.draw(st.sampled_from(ROLES)) for name in shapes}
    optimizer = optimizer_from_config(
        Section(name="muon", normuon=True), RATE, params, roles
    )
    state = optimizer.init(params)

    (muon, rows), *_ = state["muon"]
    adam, *_ = state["adamw"]
    assert sorted(shapes) == sorted([*muon.momentum, *adam.mean])
    assert muon.momentum.keys() == rows.square.keys()
    assert all(roles[name] == "hidden" for name in muon.momentum)
    assert all(len(shapes[name]) == 2 for name in muon.momentum)


WHOLE = (  # between them every piece there is
    "muon+, cautious, and adamw",
    "normuon, cautious decay, and adamw",
    "muon and adamw, looking ahead and averaged",
)


@pytest.fixture(scope="module", params=WHOLE)
def compiled_update(request: pytest.FixtureRequest) -> tuple[str, Callable[..., Any]]:
    """The update of an optimizer, compiled once."""
    optimizer = OPTIMIZERS[request.param]
    torch._dynamo.reset()

    def update(
        grads: Params, state: OptState, params: Params, step: Tensor
    ) -> list[Tensor]:
        return leaves(optimizer.update(grads, state, params, Clock(step=step)))

    return request.param, torch.compile(update, fullgraph=True)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@settings(max_examples=5, phases=[Phase.generate])  # shrinking would compile again
@given(seed=seeds, step=steps)
def test_compiled_updates_are_eager_ones(
    compiled_update: tuple[str, Callable[..., Any]], seed: int, step: int
) -> None:
    """One graph, whatever the step, and the same numbers to rounding."""
    name, compiled = compiled_update
    params, state = after_two_steps(OPTIMIZERS[name], seed)
    grads, at = normal(seed + 9, SHAPES), torch.tensor(step)
    clock = Clock(step=at)
    expected = leaves(OPTIMIZERS[name].update(grads, state, params, clock))

    with torch._dynamo.config.patch(error_on_recompile=True):
        actual = compiled(grads, state, params, at)
    torch.testing.assert_close(expected, actual, rtol=1e-4, atol=1e-5)
