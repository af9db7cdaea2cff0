"""Eager, compiled and donated runs of the same step."""

import pytest
import torch
from torch import Tensor, nn

from speedtronic.pure.gradient import gradient
from speedtronic.pure.inner import InnerState, StepRule, init_inner, inner_step
from speedtronic.pure.module import ModuleLoss, split
from speedtronic.pure.optim import adamw
from speedtronic.pure.random import key_from_seed
from speedtronic.pure.tree import evolve, leaves, named_leaves
from speedtronic.shell.compile import StepRunner, check_donation, jit

OPTIMIZER = adamw(1e-2)


class Words(nn.Module):
    """Tied weights, dropout and a layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop = nn.Embedding(7, 8), nn.Dropout(0.3)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.drop(self.mix(self.drop(self.embed(input_ids))))
        return self.head(self.mix(x))  # type: ignore[no-any-return]


def batch(seed: int = 0) -> dict[str, Tensor]:
    ids = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids[:, :-1].contiguous(), "labels": ids[:, 1:].clone()}


def start(module: nn.Module) -> InnerState:
    params, frozen, buffers = split(module)
    return init_inner(
        OPTIMIZER, params, key_from_seed(2), frozen=frozen, buffers=buffers
    )


def runner(module: nn.Module, **kwargs: object) -> StepRunner:
    torch._dynamo.reset()
    slope = gradient(ModuleLoss(module, train=True))
    return StepRunner(slope, OPTIMIZER, StepRule(max_norm=1.0), **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("donate", [True, False])
def test_one_graph_computes_what_eager_does(micro_batches: int, donate: bool) -> None:
    """Dropout masks included; the whole step is one graph without a break."""
    torch.manual_seed(0)
    module = Words()
    window = [batch(seed) for seed in range(micro_batches)]
    plain, compiled = start(module), start(module)
    run = runner(module, compiled="eager", donate=donate, warn=pytest.fail)
    for _ in range(3):
        plain, _ = inner_step(
            run.gradient, OPTIMIZER, plain, window, rule=StepRule(max_norm=1.0)
        )
        compiled, _ = run(compiled, window)

    assert run.compiled
    for path, value in named_leaves(plain).items():
        torch.testing.assert_close(value, named_leaves(compiled)[path])


@pytest.mark.slow
def test_the_compiler_draws_the_same_masks_and_never_recompiles() -> None:
    """Inductor, fused and in place, against the definition."""
    torch.manual_seed(0)
    module = Words()
    run = runner(module, compiled="inductor", warn=pytest.fail)
    plain, compiled = start(module), start(module)
    pointers = [leaf.data_ptr() for leaf in leaves(compiled.params)]
    graphs = 0
    for seed in range(4):
        plain, _ = inner_step(
            run.gradient, OPTIMIZER, plain, [batch(seed)], rule=StepRule(max_norm=1.0)
        )
        compiled, _ = run(compiled, [batch(seed)])
        graphs = graphs or torch._dynamo.utils.counters["stats"]["unique_graphs"]

    assert graphs == torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert pointers == [leaf.data_ptr() for leaf in leaves(compiled.params)]
    for name, value in plain.params.items():
        torch.testing.assert_close(value, compiled.params[name], rtol=1e-4, atol=1e-5)


def test_a_compiler_error_falls_back_once_and_says_so() -> None:
    """The step still happens; the warning names the error."""
    said: list[str] = []

    def broken(graph: object, inputs: object) -> object:
        raise RuntimeError("no such kernel")

    torch.manual_seed(0)
    module = Words()
    run = runner(module, compiled=broken, warn=said.append)
    state, _ = run(start(module), [batch()])
    state, _ = run(state, [batch()])

    assert torch.tensor(2) == state.step
    assert 1 == len(said) and "training goes on without it" in said[0]


def test_an_error_of_the_model_surfaces_as_itself() -> None:
    """It is not taken for one of the compiler, and nothing is said about compiling."""

    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            raise LookupError("my own mistake")

    run = runner(Broken(), compiled="eager", warn=pytest.fail)
    with pytest.raises(LookupError, match="my own mistake"):
        run(start(Broken()), [(torch.ones(1, 2), torch.tensor([0]))])


def test_the_pure_run_leaves_the_old_state_alone() -> None:
    """Without donation a state may be read for ever."""
    module = Words()
    state = start(module)
    before = [leaf.clone() for leaf in leaves(state)]
    runner(module, donate=False)(state, [batch()])

    for a, b in zip(before, leaves(state), strict=True):
        assert torch.equal(a, b)


def test_the_donated_run_reuses_the_buffers() -> None:
    """Parameters and moments stay where they are."""
    module = Words()
    state = start(module)
    pointers = [leaf.data_ptr() for leaf in leaves(state.params)]
    after, _ = runner(module)(state, [batch()])

    assert pointers == [leaf.data_ptr() for leaf in leaves(after.params)]


def test_a_state_that_was_written_over_is_refused() -> None:
    """Its parameters are those of a later step; so is one that was made of it."""
    module = Words()
    run, first = runner(module), start(module)
    second, _ = run(first, [batch()])
    third, _ = run(evolve(second, buffers=dict(second.buffers)), [batch()])

    for spent in (first, second, evolve(first, params=dict(first.params))):
        with pytest.raises(ValueError, match="a step that wrote over it; go on with"):
            run(spent, [batch()])
    run(third, [batch()])


@pytest.mark.parametrize("ways", [{"donate": False}, {"fused": False}])
def test_a_state_that_was_not_written_over_may_be_used_again(
    ways: dict[str, bool],
) -> None:
    """It gives the same step again."""
    module = Words()
    run, state = runner(module, **ways), start(module)
    one, _ = run(state, [batch()])
    other, _ = run(state, [batch()])

    for a, b in zip(leaves(one), leaves(other), strict=True):
        assert torch.equal(a, b)


def test_the_halves_of_a_step_can_be_reduced_between() -> None:
    """Two ranks with the same batch: twice the sums, the same step."""
    torch.manual_seed(0)
    module = Words()
    double = lambda total: evolve(
        total,
        grads={name: 2 * g for name, g in total.grads.items()},
        loss_sum=2 * total.loss_sum,
        count=2 * total.count,
    )
    alone, told = runner(module, donate=False)(start(module), [batch()])
    both, info = runner(module, donate=False, reduce=double)(start(module), [batch()])

    torch.testing.assert_close(told.loss, info.loss)
    for name, value in alone.params.items():
        torch.testing.assert_close(value, both.params[name])


def test_a_step_that_moves_a_leaf_is_refused() -> None:
    """Writing one would destroy the other before it is read."""
    swap = lambda s: ({"a": s["b"], "b": s["a"]}, None)
    step = jit(swap, donate=True, backend="eager")
    with pytest.raises(ValueError, match=r"returns \['b'\] as \['a'\]"):
        step({"a": torch.zeros(2), "b": torch.ones(2)})


def test_a_view_of_another_leaf_is_refused() -> None:
    """Ownership goes by storage, not by object."""
    view = lambda s: ({"a": s["b"][:], "b": s["b"]}, None)
    with pytest.raises(ValueError, match=r"returns \['b'\] as \['a'\]"):
        check_donation(view, {"a": torch.zeros(2), "b": torch.ones(2)})


def test_a_step_that_changes_a_dtype_is_refused() -> None:
    """A buffer cannot hold another type."""
    widen = lambda s: ({"a": s["a"].double()}, None)
    with pytest.raises(TypeError, match="float64"):
        check_donation(widen, {"a": torch.zeros(2)})
