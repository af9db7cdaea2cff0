"""Activation checkpointing without saved-tensor hooks."""

import pytest
import torch
from torch import Tensor

from speedtronic.pure.recompute import recomputed
from speedtronic.testing.purity import check_pure

# The compiler itself makes an object of an autograd function.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Function'> should not be instantiated:DeprecationWarning"
)


def block(x: Tensor, weight: Tensor, factor: Tensor | None) -> Tensor:
    """Something with activations worth forgetting."""
    y = torch.tanh(x @ weight)
    return x + (y if factor is None else y * factor)


again_block = recomputed(block, constants=["factor"])


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(shape, generator=generator)
    return make(5, 4), make(4, 4), make(5, 4)


def test_the_value_and_the_gradients_are_the_functions_own() -> None:
    """Bit for bit, by autograd and by torch.func, with and without an absent input."""
    x, weight, factor = tensors()
    for given in (factor, None):

        def plain(x: Tensor, weight: Tensor, given: Tensor | None = given) -> Tensor:
            return block(x, weight, given).sin().sum()

        def again(x: Tensor, weight: Tensor, given: Tensor | None = given) -> Tensor:
            return again_block(x, weight, given).sin().sum()

        expected = torch.func.grad_and_value(plain, (0, 1))(x, weight)
        slope = torch.func.grad_and_value(again, (0, 1))
        torch.testing.assert_close(check_pure(slope, x, weight), expected)
        leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
        grads = torch.autograd.grad(again(*leaves), leaves)
        torch.testing.assert_close(grads, expected[0], rtol=0, atol=0)


def test_only_inputs_are_kept() -> None:
    """Autograd saves nothing that the function computed."""
    x, weight, factor = tensors()
    x.requires_grad_()
    kept: list[int] = []

    def remember(tensor: Tensor) -> Tensor:
        kept.append(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(remember, lambda t: t):
        again_block(x, weight, factor)
    assert {t.data_ptr() for t in (x, weight, factor)} == set(kept)


def test_constants_get_no_gradient() -> None:
    """Not even when asked for it."""
    x, weight, factor = (t.requires_grad_() for t in tensors())

    output = again_block(x, weight, factor).sum()
    grads = torch.autograd.grad(output, (x, weight, factor), allow_unused=True)
    assert [False, False, True] == [g is None for g in grads]


def test_a_batch_of_gradients() -> None:
    """`torch.func.vmap` reaches through."""
    x, weight, factor = tensors()

    def slope(x: Tensor) -> Tensor:
        return torch.func.grad(lambda x: again_block(x, weight, None).sum())(x)

    batch = torch.stack([x, factor])
    expected = torch.stack([slope(x), slope(factor)])
    torch.testing.assert_close(torch.func.vmap(slope)(batch), expected)


def test_the_recomputation_runs_under_the_same_autocast() -> None:
    """The gradient may be taken outside the context of the forward pass."""
    x, weight, factor = tensors()
    leaves = x.requires_grad_(), weight.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        plain, again = block(x, weight, factor), again_block(x, weight, factor)

    assert torch.equal(plain, again)
    expected = torch.autograd.grad(plain.sum(), leaves)
    found = torch.autograd.grad(again.sum(), leaves)
    assert [torch.float32] * 2 == [g.dtype for g in found]
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_compiled_gradients_are_the_same() -> None:
    """Both engines, in one graph each."""
    x, weight, factor = tensors()

    def target(x: Tensor, weight: Tensor) -> Tensor:
        return again_block(again_block(x, weight, factor), weight, None).sin().sum()

    def by_func(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        return torch.func.grad(target, (0, 1))(x, weight)

    def by_autograd(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        leaves = x.detach().requires_grad_(), weight.detach().requires_grad_()
        return torch.autograd.grad(target(*leaves), leaves)

    expected = by_func(x, weight)
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        for slope in (by_func, by_autograd):
            compiled = torch.compile(slope, backend="aot_eager", fullgraph=True)
            torch.testing.assert_close(compiled(x, weight), expected)


def test_star_arguments_are_refused() -> None:
    """The compiler would pass one argument too many, and sometimes not notice."""
    with pytest.raises(TypeError, match="plain positional"):
        recomputed(lambda *inputs: inputs[0])
