"""Loss on held-out data."""

import math
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from speedtronic.pure.inner import InnerState, init_inner
from speedtronic.pure.module import ModuleLoss, split
from speedtronic.pure.optim import sgd
from speedtronic.pure.random import key_from_seed
from speedtronic.pure.tree import leaves
from speedtronic.shell.evaluate import evaluate


class Words(nn.Module):
    """Dropout and batch statistics, both of which evaluation must leave alone."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop = nn.Embedding(9, 6), nn.Dropout(0.5)
        self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 9)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.drop(self.embed(input_ids)).transpose(1, 2)
        return self.head(self.norm(x).transpose(1, 2))  # type: ignore[no-any-return]


def held_out() -> tuple[Tensor, Tensor]:
    """Ten rows of ten targets, one of which counts in the last row."""
    ids = torch.randint(9, (10, 11), generator=torch.Generator().manual_seed(0))
    labels = ids[:, 1:].clone()
    labels[-1, 1:] = -100
    return ids[:, :-1].contiguous(), labels


def batches(size: int) -> Iterator[dict[str, Tensor]]:
    inputs, labels = held_out()
    for at in range(0, 10, size):
        rows = slice(at, at + size)
        yield {"input_ids": inputs[rows], "labels": labels[rows]}


def session() -> tuple[ModuleLoss, InnerState]:
    torch.manual_seed(0)
    module = Words()
    params, frozen, buffers = split(module)
    state = init_inner(sgd(0.1), params, key_from_seed(0), buffers=buffers)
    return ModuleLoss(module, train=False), state


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_the_loss_does_not_depend_on_the_batch_size(size: int) -> None:
    """A short last batch weighs by its targets."""
    loss, state = session()
    inputs, labels = held_out()
    logits = loss.outputs(state.params, state.buffers, {"input_ids": inputs}, state.key)
    expected = F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    found = evaluate(loss, state, batches(size))

    assert found is not None
    assert (float(expected), 91) == (pytest.approx(found.loss, rel=1e-5), found.targets)


def test_evaluation_changes_nothing() -> None:
    """Not the state, not the statistics, not the global generator."""
    loss, state = session()
    before = [leaf.clone() for leaf in leaves(state)]
    drawn = torch.get_rng_state()
    evaluate(loss, state, batches(3))

    assert torch.equal(drawn, torch.get_rng_state())
    for a, b in zip(before, leaves(state), strict=True):
        assert torch.equal(a, b)


def test_bits_per_byte_count_the_bytes_behind_a_token() -> None:
    """Two bytes a token halve the bits."""
    loss, state = session()
    found = evaluate(loss, state, batches(5), bytes_per_token=2.0)

    assert found is not None
    assert found.loss / math.log(2) / 2 == found.bits_per_byte


def test_nothing_to_count_is_no_loss_of_zero() -> None:
    """An empty set and a fully ignored one have no loss."""
    loss, state = session()
    ignored = {
        "input_ids": torch.zeros(1, 4, dtype=torch.int64),
        "labels": torch.full((1, 4), -100),
    }

    assert evaluate(loss, state, []) is None
    assert evaluate(loss, state, [ignored]) is None


def test_it_can_be_stopped_between_batches() -> None:
    """An interrupt does not wait for the rest."""
    loss, state = session()
    assert evaluate(loss, state, batches(1), stop=lambda: True) is None
