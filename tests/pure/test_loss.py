"""Cross-entropy as (sum, count)."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from speedtronic.pure.loss import (
    IGNORED,
    chunked_cross_entropy_sum,
    count_labels,
    cross_entropy_sum,
)
from speedtronic.testing.purity import check_pure

# The compiler itself makes an object of an autograd function.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Function'> should not be instantiated:DeprecationWarning"
)


def example(rows: int = 13, width: int = 6, vocab: int = 11) -> tuple[Tensor, ...]:
    """hidden [rows, width], head [vocab, width] and labels [rows], some ignored."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, width, generator=generator)
    head = torch.randn(vocab, width, generator=generator)
    labels = torch.randint(vocab, (rows,), generator=generator)
    labels[::4] = IGNORED
    return hidden, head, labels


def by_autograd(
    hidden: Tensor, head: Tensor, labels: Tensor, chunk_size: int | None
) -> tuple[Tensor, ...]:
    """Loss sum and both gradients; without ``chunk_size`` of the plain form."""
    hidden, head = hidden.clone().requires_grad_(), head.clone().requires_grad_()
    if chunk_size is None:
        loss_sum, _ = cross_entropy_sum(F.linear(hidden, head), labels)
    else:
        loss_sum, _ = chunked_cross_entropy_sum(hidden, head, labels, chunk_size)
    return loss_sum.detach(), *torch.autograd.grad(loss_sum * 3, (hidden, head))


def test_sum_and_count_give_the_usual_mean() -> None:
    """The mean over counted labels is that of `F.cross_entropy`."""
    hidden, head, labels = example()
    logits = hidden @ head.T

    loss_sum, count = check_pure(cross_entropy_sum, logits, labels)
    torch.testing.assert_close(F.cross_entropy(logits, labels), loss_sum / count)
    assert (torch.float32, torch.float32) == (loss_sum.dtype, count.dtype)
    assert 9 == count


def test_leading_dimensions_are_rows() -> None:
    """[B, T, V] is B * T rows."""
    hidden, head, labels = example(rows=12)
    logits = hidden @ head.T

    flat = cross_entropy_sum(logits, labels)
    assert flat == cross_entropy_sum(logits.view(3, 4, -1), labels.view(3, 4))
    chunked = chunked_cross_entropy_sum(hidden, head, labels, 5)
    folded = (hidden.view(3, 4, -1), head, labels.view(3, 4), 5)
    assert chunked == chunked_cross_entropy_sum(*folded)


@pytest.mark.parametrize("chunk_size", [None, 4])
def test_ignored_labels_only(chunk_size: int | None) -> None:
    """A fully padded micro-batch gives (0, 0) and gradients of zero, never NaN."""
    hidden, head, labels = example()
    labels = torch.full_like(labels, IGNORED)

    loss_sum, *grads = by_autograd(hidden, head, labels, chunk_size)
    assert 0 == loss_sum
    assert 0 == count_labels(labels)
    assert [0, 0] == [int(g.count_nonzero()) for g in grads]


@pytest.mark.parametrize("chunk_size", [1, 4, 13, 100])
def test_chunks_change_neither_value_nor_gradient(chunk_size: int) -> None:
    """Chunks that divide the rows, leave a rest, or are larger than all of them."""
    inputs = example()

    expected = by_autograd(*inputs, None)
    torch.testing.assert_close(by_autograd(*inputs, chunk_size), expected)


def test_chunks_under_torch_func() -> None:
    """`torch.func.grad`, alone and batched, agrees with autograd."""
    hidden, head, labels = example()

    def loss(hidden: Tensor, head: Tensor) -> Tensor:
        return 3 * chunked_cross_entropy_sum(hidden, head, labels, 4)[0]

    expected = by_autograd(hidden, head, labels, None)[1:]
    slope = torch.func.grad(loss, (0, 1))
    torch.testing.assert_close(check_pure(slope, hidden, head), expected)
    batched = torch.func.vmap(slope)(hidden.expand(2, 13, 6), head.expand(2, 11, 6))
    torch.testing.assert_close(tuple(g[1] for g in batched), expected)


def test_chunks_compile_in_one_graph() -> None:
    """The compiled form is the same function, gradients included."""
    hidden, head, labels = example()

    def loss(hidden: Tensor, head: Tensor) -> Tensor:
        return 3 * chunked_cross_entropy_sum(hidden, head, labels, 4)[0]

    slope = torch.compile(torch.func.grad(loss, (0, 1)), backend="aot_eager")
    expected = by_autograd(hidden, head, labels, None)[1:]
    torch.testing.assert_close(slope(hidden, head), expected)


def test_chunks_never_hold_all_logits() -> None:
    """No tensor of the forward or backward pass has rows times vocabulary elements."""

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            if isinstance(out, Tensor):
                self.seen = max(self.seen, out.numel())
            return out

    hidden, head, labels = example(rows=64, width=2, vocab=40)
    with Largest() as plain:
        by_autograd(hidden, head, labels, None)
    with Largest() as chunked:
        by_autograd(hidden, head, labels, 8)
    assert (64 * 40, 8 * 40) == (plain.seen, chunked.seen)


@pytest.mark.parametrize("chunk_size", [None, 4])
def test_loss_of_half_precision_logits_is_float32(chunk_size: int | None) -> None:
    """Under bf16 the loss is not quantised, and gradients have their inputs' dtype."""
    hidden, head, labels = example(rows=64, vocab=500)
    exact = by_autograd(hidden, head, labels, None)

    with torch.autocast("cpu", torch.bfloat16):
        found = by_autograd(hidden, head, labels, chunk_size)
    assert [torch.float32] * 3 == [x.dtype for x in found]
    torch.testing.assert_close(found[0], exact[0], rtol=1e-2, atol=0)
    torch.testing.assert_close(found[1:], exact[1:], rtol=2e-2, atol=5e-2)
    assert found[0] != found[0].to(torch.bfloat16)


@pytest.mark.parametrize("label", [11, -1])
def test_labels_outside_the_vocabulary_are_an_error(label: int) -> None:
    """Neither form takes a wrong label for an ignored one."""
    hidden, head, labels = example()
    labels[1] = label

    with pytest.raises(IndexError, match="out of bounds"):
        cross_entropy_sum(hidden @ head.T, labels)
    with pytest.raises(IndexError, match="out of bounds"):
        chunked_cross_entropy_sum(hidden, head, labels, 4)


def test_a_chunk_holds_a_row() -> None:
    """A chunk size of zero is refused."""
    with pytest.raises(ValueError, match="at least 1, got 0"):
        chunked_cross_entropy_sum(*example(), 0)
