"""The outputs a model may give."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from speedtronic.pure.contract import ContractError, count_of, loss_of

LOGITS = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([[1, -100, 2], [0, 4, -100]])
BATCH = {"input_ids": torch.zeros(2, 3, dtype=torch.int64), "labels": LABELS}
MEAN = F.cross_entropy(LOGITS.flatten(0, 1), LABELS.flatten())


@pytest.mark.parametrize(
    "output",
    [
        MEAN,
        {"loss": MEAN},
        {"loss": MEAN, "logits": LOGITS},
        {"logits": LOGITS},
        LOGITS,
        (LOGITS, "cache"),
        (MEAN, LOGITS),
        [MEAN],
        {"loss_sum": 4 * MEAN, "count": torch.tensor(4)},
        {"loss_sum": 4 * MEAN, "count": 4},
    ],
    ids=range(10),
)
def test_every_form_gives_the_same_sum_and_count(output: Any) -> None:
    """A mean loss, logits, or exact sums."""
    loss_sum, count, _ = loss_of(output, BATCH)

    torch.testing.assert_close(loss_sum, 4 * MEAN)
    assert torch.tensor(4.0) == count


def test_other_scalars_are_metrics() -> None:
    """Only 0-d tensors beside the loss."""
    output = {"loss": MEAN, "accuracy": torch.tensor(0.5), "hidden": LOGITS}

    assert {"accuracy": torch.tensor(0.5)} == loss_of(output, BATCH)[2]


def test_a_classifier_with_flat_labels_counts_rows() -> None:
    """Logits [B, V] over labels [B]."""
    batch = (torch.zeros(3, 7), torch.tensor([0, 1, 2]))
    loss_sum, count, _ = loss_of(torch.zeros(3, 4), batch)

    assert torch.tensor(3.0) == count
    torch.testing.assert_close(loss_sum, 3 * torch.log(torch.tensor(4.0)))


def test_rows_count_where_labels_are_no_classes() -> None:
    """Regression: floating targets."""
    assert torch.tensor(6.0) == count_of((torch.zeros(6, 2), torch.zeros(6)))


def test_a_mean_over_nothing_contributes_nothing() -> None:
    """0/0 of the model's own mean does not reach the sum."""
    labels = torch.full((1, 2), -100)
    own = F.cross_entropy(torch.zeros(2, 3), labels.flatten())

    assert (torch.tensor(0.0), torch.tensor(0.0)) == loss_of(own, {"labels": labels})[
        :2
    ]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ({"hidden": LOGITS}, r"\['hidden'\]"),
        (None, "NoneType"),
        ((), "tuple"),
        (MEAN[None], r"a tensor \[1\]"),
        ({"loss": LOGITS}, r"shape \[2, 3, 5\], expected a 0-d mean"),
        ({"loss": 0.5}, "'loss' is float, expected a float tensor"),
        (LOGITS.long(), "logits are torch.int64, expected a float tensor"),
        ({"loss": torch.tensor(3)}, "'loss' is torch.int64, expected a float tensor"),
        (MEAN + 0j, "'loss' is torch.complex64, expected a float tensor"),
        ({"loss_sum": 1.0, "count": 4}, "'loss_sum' is float, expected a float tensor"),
        ({"loss_sum": LOGITS, "count": 4}, r"'loss_sum' has shape \[2, 3, 5\]"),
        ({"loss_sum": MEAN, "count": torch.ones(2)}, r"'count' has shape \[2\]"),
        ({"loss": MEAN, 1: MEAN}, "names a metric 1, expected text"),
        (LOGITS[:, :2], r"need labels \[2, 2\] in the batch, found labels \[2, 3\]"),
    ],
)
def test_anything_else_is_named(output: Any, told: str) -> None:
    """The message says what came back and what was expected."""
    with pytest.raises(ContractError, match=told):
        loss_of(output, BATCH)
