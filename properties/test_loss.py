"""Laws of the loss as (sum, count)."""

from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from speedtronic.pure.loss import (
    IGNORED,
    chunked_cross_entropy_sum,
    count_labels,
    cross_entropy_sum,
)


@st.composite
def examples(draw: Any) -> tuple[Tensor, Tensor, Tensor]:
    """hidden [N, D], head [V, D] and labels [N] with any of them ignored."""
    rows, width, vocab = (draw(st.integers(1, n)) for n in (12, 5, 9))
    source = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    scale = draw(st.sampled_from([0.01, 1.0, 30.0]))
    labels = draw(
        st.lists(
            st.integers(0, vocab - 1) | st.just(IGNORED), min_size=rows, max_size=rows
        )
    )
    hidden = scale * torch.randn(rows, width, generator=source)
    head = torch.randn(vocab, width, generator=source)
    return hidden, head, torch.tensor(labels)


def plain(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy_sum(F.linear(hidden, head), labels)[0]


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@given(examples(), st.integers(1, 14))
def test_chunked_is_plain(example: tuple[Tensor, ...], chunk_size: int) -> None:
    """Value, count and both gradients, by either engine, for any chunk size."""
    hidden, head, labels = example

    def chunked(hidden: Tensor, head: Tensor) -> Tensor:
        return chunked_cross_entropy_sum(hidden, head, labels, chunk_size)[0]

    target = lambda hidden, head: plain(hidden, head, labels)
    slope, value = torch.func.grad_and_value(target, (0, 1))(hidden, head)
    close(torch.func.grad_and_value(chunked, (0, 1))(hidden, head), (slope, value))
    leaves = hidden.clone().requires_grad_(), head.clone().requires_grad_()
    close(torch.autograd.grad(chunked(*leaves), leaves), slope)
    count = chunked_cross_entropy_sum(*example, chunk_size)[1]
    assert (labels != IGNORED).sum() == count


@given(examples(), st.data())
def test_any_split_of_the_rows_adds_up(
    example: tuple[Tensor, ...], data: st.DataObject
) -> None:
    """Sums, counts and the gradient of the head are those of all rows at once."""
    hidden, head, labels = example
    sizes = []
    while sum(sizes) < len(labels):
        sizes.append(data.draw(st.integers(1, len(labels) - sum(sizes))))
    parts = list(zip(hidden.split(sizes), labels.split(sizes), strict=True))

    whole = torch.func.grad_and_value(plain, 1)(hidden, head, labels)
    split = [torch.func.grad_and_value(plain, 1)(h, head, y) for h, y in parts]
    close(sum(grad for grad, _ in split), whole[0])
    close(sum(value for _, value in split), whole[1])
    assert count_labels(labels) == sum(count_labels(y) for _, y in parts)


@given(examples(), st.integers(1, 5))
def test_ignored_rows_have_no_influence(
    example: tuple[Tensor, ...], extra: int
) -> None:
    """Padding adds exactly nothing, whatever stands in it."""
    hidden, head, labels = example
    padding = torch.full((extra, hidden.shape[1]), 1e4)
    ignored = torch.full((extra,), IGNORED)
    longer = torch.cat([hidden, padding]), head, torch.cat([labels, ignored])

    close(plain(*longer), plain(*example))
    slope = torch.func.grad(plain)(*longer)
    assert 0 == slope[len(labels) :].count_nonzero()
    assert count_labels(labels) == count_labels(longer[2])
