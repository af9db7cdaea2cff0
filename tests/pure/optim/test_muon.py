"""Muon against torch.optim and its own definition."""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

from speedtronic.pure.optim.base import Clock, Optimizer, apply_updates
from speedtronic.pure.optim.muon import (
    KELLER,
    iteration_coefficients,
    muon,
    muon_labels,
    normalize_rows_and_columns,
    orthogonalize,
    scale_by_muon,
    shape_adjustment,
)

CLOCK = Clock(step=torch.tensor(0))


def matrices(seed: int) -> dict[str, Tensor]:
    made = torch.Generator().manual_seed(seed)
    shapes = {"a": (16, 48), "b": (48, 16), "c": (16, 48), "d": (24, 24)}
    return {n: torch.randn(s, generator=made) for n, s in shapes.items()}


def run(optimizer: Optimizer, steps: int) -> dict[str, Tensor]:
    params = matrices(0)
    state = optimizer.init(params)
    for step in range(steps):
        updates, state = optimizer.update(matrices(step + 1), state, params, CLOCK)
        params = apply_updates(params, updates)
    return params


def run_torch(steps: int, **kwargs: object) -> dict[str, Tensor]:
    leaves = {n: p.requires_grad_() for n, p in matrices(0).items()}
    optimizer = torch.optim.Muon(list(leaves.values()), **kwargs)  # type: ignore[arg-type]
    for step in range(steps):
        for name, grad in matrices(step + 1).items():
            leaves[name].grad = grad
        optimizer.step()
    return {n: leaf.detach() for n, leaf in leaves.items()}


def test_defaults_are_those_of_torch() -> None:
    """Except that iterations run in float32 unless bfloat16 is asked for."""
    theirs = inspect.signature(torch.optim.Muon).parameters
    ours = inspect.signature(muon).parameters

    assert theirs["lr"].default == ours["learning_rate"].default
    for name in ("weight_decay", "momentum", "nesterov", "eps", "ns_steps"):
        assert theirs[name].default == ours[name].default
    assert theirs["ns_coefficients"].default == KELLER


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
@pytest.mark.parametrize("nesterov", [True, False])
def test_steps_are_those_of_torch(
    adjust: str, nesterov: bool, dtype: torch.dtype
) -> None:
    """Within 2 % of the way that was moved: torch iterates in bfloat16, 8 bits."""
    expected = run_torch(3, lr=0.1, nesterov=nesterov, adjust_lr_fn=adjust)
    ours = muon(0.1, nesterov=nesterov, adjust=adjust, iteration_dtype=dtype)

    actual, start = run(ours, 3), matrices(0)
    for name in start:
        difference = torch.linalg.vector_norm(expected[name] - actual[name])
        moved = torch.linalg.vector_norm(expected[name] - start[name])
        assert difference < 0.02 * moved


def newton_schulz(grad: Tensor, coefficients: Any, steps: int, eps: float) -> Tensor:
    """The textbook iteration in double precision, one matrix, no transposition."""
    a, b, c = coefficients
    x = grad.double() / max(float(torch.linalg.matrix_norm(grad)), eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.float()


def test_steps_are_those_of_torch_but_for_its_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With its iteration done in double precision the two agree to rounding."""
    patched = "torch.optim._muon._zeropower_via_newtonschulz"
    monkeypatch.setattr(patched, newton_schulz)
    expected = run_torch(3, lr=0.1)

    torch.testing.assert_close(expected, run(muon(0.1), 3), rtol=0.0, atol=2e-5)


def test_a_batch_of_one_shape_is_each_matrix_alone() -> None:
    """Batching is about speed only."""
    together = run(muon(0.1), 2)
    for name in together:

        def only(params: dict[str, Tensor], name: str = name) -> dict[str, Tensor]:
            return {name: params[name]}

        params = only(matrices(0))
        optimizer = muon(0.1)
        state = optimizer.init(params)
        for step in range(2):
            grads = only(matrices(step + 1))
            updates, state = optimizer.update(grads, state, params, CLOCK)
            params = apply_updates(params, updates)
        torch.testing.assert_close(together[name], params[name], rtol=1e-4, atol=1e-5)


def test_decay_uses_the_unadjusted_learning_rate() -> None:
    """As in torch.optim: with zero gradients a matrix shrinks by 1 - lr * decay."""
    params = {"w": torch.ones(8, 2)}
    optimizer = muon(0.1, weight_decay=0.5)
    zeros = {"w": torch.zeros(8, 2)}
    updates, _ = optimizer.update(zeros, optimizer.init(params), params, CLOCK)

    torch.testing.assert_close(torch.full((8, 2), 0.95), 1.0 + updates["w"])


@pytest.mark.parametrize("shape", [(3,), (2, 2, 3), (4, 2, 3, 3)])
def test_only_matrices_are_taken(shape: tuple[int, ...]) -> None:
    """A vector or a convolution is refused by name, when the state is made."""
    with pytest.raises(ValueError, match="matrices only, found conv of shape"):
        scale_by_muon().init({"w": torch.ones(2, 2), "conv": torch.ones(shape)})


def test_no_parameters_are_fine() -> None:
    """A model may have nothing for Muon."""
    assert {} == muon().update({}, muon().init({}), {}, CLOCK)[0]


def test_labels_go_by_role() -> None:
    """Embeddings and tied heads are matrices too, but not hidden ones."""
    params = {
        "wte.weight": torch.ones(4, 2),
        "up.weight": torch.ones(2, 2),
        "up.bias": torch.ones(2),
        "norm.gain": torch.ones(1, 2),
        "conv.weight": torch.ones(2, 2, 3),
        "stack": torch.ones(2, 2, 2),
    }
    roles = {
        "wte.weight": "embedding",
        "up.weight": "hidden",
        "up.bias": "bias",
        "norm.gain": "norm",
        "conv.weight": "kernel",
        "stack": "hidden",
    }

    labels = muon_labels(params, roles)  # type: ignore[arg-type]
    assert ["up.weight"] == [name for name in labels if labels[name] == "muon"]
    assert list(params) == list(labels)


def test_rows_then_columns_are_normalized() -> None:
    """Columns come last, so that theirs are the exact norms."""
    result = normalize_rows_and_columns(matrices(0)["a"])

    norms = torch.linalg.vector_norm(result, dim=0)
    torch.testing.assert_close(torch.ones(48), norms)


def test_plus_normalizes_the_update() -> None:
    """Muon+ is the normalization of what Muon orthogonalized."""
    grads = matrices(1)
    plain, plus = scale_by_muon(adjust="original"), scale_by_muon(plus=True)
    before, _ = plain.update(grads, plain.init(grads), grads, CLOCK)
    after, _ = plus.update(grads, plus.init(grads), grads, CLOCK)

    torch.testing.assert_close(normalize_rows_and_columns(before["a"]), after["a"])


def test_polar_express_repeats_its_last_step() -> None:
    """It was fitted for five steps."""
    triples = iteration_coefficients("polar_express", 7)

    assert 7 == len(triples)
    assert triples[4] == triples[5] == triples[6] != triples[3]


@pytest.mark.parametrize(
    "expected, adjust, shape",
    [
        (2.0, "original", (4, 1)),
        (1.0, "original", (1, 4)),
        (0.4, "match_rms_adamw", (4, 1)),
        (0.4, "match_rms_adamw", (1, 4)),
    ],
)
def test_adjustments(expected: float, adjust: str, shape: tuple[int, int]) -> None:
    """The two rules of torch.optim.Muon."""
    assert expected == pytest.approx(shape_adjustment(adjust, *shape))


@pytest.mark.parametrize(
    "kwargs",
    [
        {"adjust": "spectral"},
        {"coefficients": "newton"},
        {"ns_steps": 0},
        {"momentum": 1.0},
    ],
)
def test_mistakes_are_told_at_once(kwargs: dict) -> None:
    """Where the optimizer is made, with what was expected."""
    with pytest.raises(ValueError, match="expected"):
        muon(**kwargs)


def test_a_result_has_the_dtype_of_its_matrix() -> None:
    """Iterations in bfloat16 give a float32 update."""
    result = orthogonalize(torch.eye(2)[None], iteration_dtype=torch.bfloat16)
    assert torch.float32 == result.dtype
