"""Our optimizers are those of torch.optim, for any shapes and numbers."""

from typing import Any
from unittest import mock

import torch
from hypothesis import given
from hypothesis import strategies as st
from properties.optim.strategies import Params, normal, seeds, shapes
from torch import Tensor

from speedtronic.pure.optim import (
    Clock,
    Optimizer,
    adamw,
    apply_updates,
    decay_everything,
    muon,
    sgd,
)
from speedtronic.pure.optim.muon import Triple, orthogonalize

CLOCK = Clock(step=torch.tensor(0))
STEPS = 3


def ours(optimizer: Optimizer, start: Params, seed: int) -> Params:
    shapes = {name: tuple(p.shape) for name, p in start.items()}
    params, state = start, optimizer.init(start)
    for step in range(STEPS):
        grads = normal(seed + step + 1, shapes)
        updates, state = optimizer.update(grads, state, params, CLOCK)
        params = apply_updates(params, updates)
    return params


def theirs(make: Any, start: Params, seed: int, **kwargs: Any) -> Params:
    shapes = {name: tuple(p.shape) for name, p in start.items()}
    leaves = {name: p.clone().requires_grad_() for name, p in start.items()}
    optimizer = make(list(leaves.values()), **kwargs)
    for step in range(STEPS):
        for name, grad in normal(seed + step + 1, shapes).items():
            leaves[name].grad = grad
        optimizer.step()
    return {name: leaf.detach() for name, leaf in leaves.items()}


@given(
    seeds,
    shapes(),
    st.floats(1e-6, 0.1),
    st.floats(0.0, 0.99),
    st.floats(0.5, 0.9999),
    st.floats(1e-10, 1e-3),
    st.floats(0.0, 0.5),
)
def test_adamw(
    seed: int,
    shapes: dict[str, tuple[int, ...]],
    rate: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
) -> None:
    """The difference is rounding: 1e-5 of a learning rate, or of a parameter."""
    start, betas = normal(seed, shapes), (beta1, beta2)
    expected = theirs(
        torch.optim.AdamW,
        start,
        seed,
        lr=rate,
        betas=betas,
        eps=eps,
        weight_decay=decay,
        foreach=False,
    )

    actual = ours(adamw(rate, betas, eps, decay, decay_everything), start, seed)
    torch.testing.assert_close(expected, actual, rtol=1e-6, atol=1e-5 * rate)


@given(
    seeds,
    shapes(),
    st.floats(1e-6, 0.5),
    st.floats(0.0, 0.99),
    st.booleans(),
    st.floats(0.0, 0.5),
)
def test_sgd(
    seed: int,
    shapes: dict[str, tuple[int, ...]],
    rate: float,
    momentum: float,
    nesterov: bool,
    decay: float,
) -> None:
    """The difference is rounding."""
    nesterov = nesterov and momentum > 0
    start = normal(seed, shapes)
    expected = theirs(
        torch.optim.SGD,
        start,
        seed,
        lr=rate,
        momentum=momentum,
        nesterov=nesterov,
        weight_decay=decay,
    )

    made = sgd(rate, momentum, nesterov, decay, decay_everything)
    torch.testing.assert_close(expected, ours(made, start, seed), rtol=1e-5, atol=1e-6)


@given(
    seeds,
    shapes(dimensions=2),
    st.floats(1e-4, 0.1),
    st.floats(0.0, 0.99),
    st.booleans(),
    st.floats(0.0, 0.5),
    st.sampled_from(["original", "match_rms_adamw"]),
)
def test_muon(
    seed: int,
    shapes: dict[str, tuple[int, ...]],
    rate: float,
    momentum: float,
    nesterov: bool,
    decay: float,
    adjust: str,
) -> None:
    """With one iteration in both (torch's own is in bfloat16): to rounding."""
    start = normal(seed, shapes)
    kwargs = {"momentum": momentum, "nesterov": nesterov, "weight_decay": decay}
    with mock.patch("torch.optim._muon._zeropower_via_newtonschulz", iterate):
        expected = theirs(
            torch.optim.Muon, start, seed, lr=rate, adjust_lr_fn=adjust, **kwargs
        )

    actual = ours(muon(rate, adjust=adjust, **kwargs), start, seed)  # type: ignore[arg-type]
    torch.testing.assert_close(expected, actual, rtol=1e-5, atol=1e-4 * rate)


def iterate(grad: Tensor, coefficients: Triple, steps: int, eps: float) -> Tensor:
    """Ours, called as torch calls its own."""
    return orthogonalize(grad[None], (coefficients,) * steps, eps)[0]
