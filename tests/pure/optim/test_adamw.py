"""AdamW against torch.optim, as formula and as kernel."""

import inspect

import pytest
import torch
from torch import Tensor, nn

from speedtronic.pure.optim.adamw import adamw
from speedtronic.pure.optim.base import (
    FUNCTIONAL_ADAMW,
    Clock,
    Optimizer,
    apply_updates,
    guarded_step,
)
from speedtronic.pure.optim.decay import decay_everything
from speedtronic.pure.tree import named_leaves

CLOCK = Clock(step=torch.tensor(0))
ONE, ZERO = torch.tensor(1.0), torch.tensor(0.0)


def tensors(seed: int) -> dict[str, Tensor]:
    made = torch.Generator().manual_seed(seed)
    shapes = {"up.weight": (33, 17), "up.bias": (5,), "down.weight": (64, 64)}
    return {n: torch.randn(s, generator=made) for n, s in shapes.items()}


def run_torch(steps: int, **kwargs: object) -> list[Tensor]:
    """The parameters after some steps of torch.optim.AdamW."""
    leaves = [p.requires_grad_() for p in tensors(0).values()]
    optimizer = torch.optim.AdamW(leaves, **kwargs)  # type: ignore[arg-type]
    for step in range(steps):
        for leaf, grad in zip(leaves, tensors(step + 1).values(), strict=True):
            leaf.grad = grad
        optimizer.step()
    return [leaf.detach() for leaf in leaves]


def run_formula(optimizer: Optimizer, steps: int) -> list[Tensor]:
    params = tensors(0)
    state = optimizer.init(params)
    for step in range(steps):
        updates, state = optimizer.update(tensors(step + 1), state, params, CLOCK)
        params = apply_updates(params, updates)
    return list(params.values())


def run_fused(optimizer: Optimizer, steps: int) -> list[Tensor]:
    assert optimizer.fused is not None
    params = tensors(0)
    state = optimizer.init(params)
    for step in range(steps):
        params, state = optimizer.fused(
            tensors(step + 1), state, params, CLOCK, ONE, ZERO
        )
    return list(params.values())


def test_defaults_are_those_of_torch() -> None:
    """A config can be carried over without looking anything up."""
    theirs = inspect.signature(torch.optim.AdamW).parameters
    ours = inspect.signature(adamw).parameters

    pairs = [(theirs["lr"].default, ours["learning_rate"].default)]
    pairs += [
        (theirs[name].default, ours[name].default)
        for name in ("betas", "eps", "weight_decay")
    ]
    assert all(expected == actual for expected, actual in pairs), pairs


def test_the_formula_agrees_with_torch() -> None:
    """Ten steps, within a few float32 roundings."""
    expected = run_torch(10, foreach=False)

    torch.testing.assert_close(
        expected, run_formula(adamw(mask=decay_everything), 10), rtol=2e-6, atol=1e-8
    )


def test_the_kernel_agrees_with_torch_bit_for_bit() -> None:
    """The same kernel with the same float32 learning rate: the same bits."""
    expected = run_torch(10, lr=torch.tensor(1e-3), fused=True)

    actual = run_fused(adamw(mask=decay_everything), 10)
    assert all(torch.equal(a, b) for a, b in zip(expected, actual, strict=True))


def test_the_kernel_agrees_with_the_formula() -> None:
    """Also where only matrices decay."""
    optimizer = adamw(lambda clock: torch.tensor(0.01), weight_decay=0.1)

    torch.testing.assert_close(
        run_formula(optimizer, 10), run_fused(optimizer, 10), rtol=2e-6, atol=1e-7
    )


def test_the_kernel_changes_no_bit_of_a_skipped_step() -> None:
    """Parameters, moments and the count, even if gradients are not numbers."""
    optimizer = adamw(weight_decay=0.1)
    assert optimizer.fused is not None
    params = tensors(0)
    _, state = optimizer.update(tensors(1), optimizer.init(params), params, CLOCK)
    grads = {name: g * float("nan") for name, g in tensors(2).items()}

    new_params, new_state = optimizer.fused(grads, state, params, CLOCK, ONE, ONE)
    for name in params:
        assert torch.equal(params[name], new_params[name])
        assert torch.equal(state[0].mean[name], new_state[0].mean[name])
        assert torch.equal(state[0].square[name], new_state[0].square[name])
    assert torch.equal(state[0].count, new_state[0].count)


def test_the_kernel_divides_gradients() -> None:
    """The divisor has the effect it has in the guarded formula."""
    optimizer, params, grads = adamw(), tensors(0), tensors(1)
    assert optimizer.fused is not None
    divisor, state = torch.tensor(1024.0), optimizer.init(params)

    expected = guarded_step(optimizer, grads, state, params, CLOCK, divisor, ZERO)
    actual = optimizer.fused(grads, state, params, CLOCK, divisor, ZERO)
    torch.testing.assert_close(expected[0], actual[0], rtol=2e-6, atol=1e-8)
    torch.testing.assert_close(
        expected[1][0].square, actual[1][0].square, rtol=2e-6, atol=0.0
    )


def test_the_kernel_can_be_given() -> None:
    """The shell may pass one that writes over donated buffers; the bits are equal."""
    optimizer, params, grads = adamw(), tensors(0), tensors(1)
    assert optimizer.fused is not None
    state = optimizer.init(params)
    expected, _ = optimizer.fused(grads, state, params, CLOCK, ONE, ZERO)

    def in_place(*args: list[Tensor], **kwargs: object) -> tuple[list[Tensor], ...]:
        torch._fused_adamw_(*args, **kwargs)  # type: ignore[arg-type]
        return args[:5]

    actual, _ = optimizer.fused(grads, state, params, CLOCK, ONE, ZERO, in_place)
    for name in params:
        assert torch.equal(expected[name], actual[name])
        assert params[name] is actual[name]


def test_one_call_of_the_kernel_per_decay_group() -> None:
    """An empty group costs nothing."""
    calls = []

    def count(*args: list[Tensor], **kwargs: float) -> object:
        calls.append((len(args[0]), kwargs["weight_decay"]))
        return FUNCTIONAL_ADAMW(*args, **kwargs)

    for weight, params in ((0.1, tensors(0)), (0.1, {"b.bias": torch.ones(3)})):
        optimizer = adamw(weight_decay=weight)
        assert optimizer.fused is not None
        optimizer.fused(params, optimizer.init(params), params, CLOCK, ONE, ZERO, count)
    assert [(2, 0.1), (1, 0.0), (1, 0.0)] == calls


def test_results_keep_the_order_of_the_parameters() -> None:
    """So that each leaf stays in its place, as donation needs."""
    optimizer, params = adamw(), tensors(0)
    assert optimizer.fused is not None
    state = optimizer.init(params)

    new, (adam, *_) = optimizer.fused(params, state, params, CLOCK, ONE, ZERO)
    assert list(params) == list(new) == list(adam.mean) == list(adam.square)


@pytest.mark.parametrize("which", ["params", "grads", "mean", "square"])
def test_the_kernel_is_given_one_layout(which: str) -> None:
    """A transposed tensor, as autograd may give, counts by position, not address."""
    optimizer, params, grads = adamw(0.1), tensors(0), tensors(1)
    assert optimizer.fused is not None
    _, state = optimizer.update(grads, optimizer.init(params), params, CLOCK)
    expected = optimizer.fused(grads, state, params, CLOCK, ONE, ZERO)

    adam = state[0]
    place = {"params": params, "grads": grads, "mean": adam.mean, "square": adam.square}
    place[which]["up.weight"] = place[which]["up.weight"].T.contiguous().T
    assert not place[which]["up.weight"].is_contiguous()
    actual = optimizer.fused(grads, state, params, CLOCK, ONE, ZERO)
    torch.testing.assert_close(named_leaves(expected), named_leaves(actual))


def test_a_parameter_with_gaps_is_closed_up() -> None:
    """A column of a larger tensor is no place that a kernel could walk."""
    optimizer, wide = adamw(0.1), torch.arange(24.0).reshape(4, 6)
    assert optimizer.fused is not None
    params, grads = {"w": wide[:, ::2]}, {"w": torch.ones(4, 3)}
    state = optimizer.init(params)

    expected, _ = guarded_step(optimizer, grads, state, params, CLOCK, ONE, ZERO)
    actual, _ = optimizer.fused(grads, state, params, CLOCK, ONE, ZERO)
    torch.testing.assert_close(expected, actual)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"betas": (lambda clock: torch.tensor(0.9), 0.999)},
        {"betas": (0.9, lambda clock: torch.tensor(0.999))},
        {"weight_decay": lambda clock: torch.tensor(0.1)},
        {"weight_decay_follows_schedule": False},
    ],
)
def test_what_the_kernel_cannot_do_has_no_kernel(kwargs: dict) -> None:
    """It takes only the learning rate as a tensor."""
    assert adamw(**kwargs).fused is None


class CustomNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1, 4))


class Everything(nn.Module):
    """Every kind of parameter that decay must tell apart, with a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(6, 4)
        self.layer_norm = nn.LayerNorm(4)
        self.rms = nn.RMSNorm(4)
        self.scaled_norm = CustomNorm()
        self.up = nn.Linear(4, 4)
        self.lm_head = nn.Linear(4, 6, bias=False)
        self.lm_head.weight = self.wte.weight


@pytest.mark.parametrize("fused", [False, True])
def test_only_matrices_shrink(fused: bool) -> None:
    """By 1 - lr * decay, once each; norms and biases do not change a bit."""
    params = {n: p.detach() for n, p in Everything().named_parameters()}
    zeros = {name: torch.zeros_like(p) for name, p in params.items()}
    optimizer = adamw(0.1, weight_decay=0.1)
    arguments = (zeros, optimizer.init(params), params, CLOCK, ONE, ZERO)
    if fused:
        assert optimizer.fused is not None
        new, _ = optimizer.fused(*arguments)
    else:
        new, _ = guarded_step(optimizer, *arguments)

    shrunk = {n for n in params if not torch.equal(params[n], new[n])}
    assert {"wte.weight", "up.weight"} == shrunk
    for name in shrunk:
        expected = params[name] * (1 - 0.1 * 0.1)
        torch.testing.assert_close(expected, new[name], rtol=1.2e-7, atol=0.0)
