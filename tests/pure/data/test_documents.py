"""Whole documents packed into rows."""

import torch

from speedtronic.pure.data.documents import (
    Plan,
    cut_documents,
    fill_slots,
    plan_rows,
)
from speedtronic.testing.purity import check_pure


def packed(lengths: list[int], block: int) -> list[list[int]]:
    """The lengths in each row of a plan."""
    tensor = torch.tensor(lengths, dtype=torch.int64)
    plan = plan_rows(tensor, block)
    by_slot = tensor[fill_slots(tensor, torch.arange(len(lengths)))][plan.slot]
    bounds = plan.first.tolist()
    return [by_slot[a:b].tolist() for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def test_a_document_that_fits_is_not_cut() -> None:
    """A document of L tokens has L - 1 positions."""
    pieces = cut_documents(torch.tensor([3]), torch.tensor([8]), 4)

    assert ([3], [4]) == (pieces.start.tolist(), pieces.length.tolist())


def test_a_long_document_is_cut_into_full_rows_and_a_rest() -> None:
    """Pieces follow each other without a gap."""
    pieces = cut_documents(torch.tensor([10]), torch.tensor([20]), 4)

    assert ([10, 14, 18], [4, 4, 1]) == (pieces.start.tolist(), pieces.length.tolist())


def test_a_document_of_one_token_predicts_nothing() -> None:
    """It yields no piece."""
    pieces = cut_documents(torch.tensor([0, 1]), torch.tensor([1, 4]), 4)

    assert ([1], [2]) == (pieces.start.tolist(), pieces.length.tolist())


def test_the_longest_that_fits_comes_next() -> None:
    """Rows are filled best fit, longest first."""
    assert [[7, 1], [5, 3], [2, 2]] == packed([2, 5, 1, 7, 3, 2], 8)


def test_equal_rows_are_planned_together() -> None:
    """Many documents of one length make rows of as many as fit."""
    assert [[3, 3], [3, 3], [3]] == packed([3] * 5, 8)


def test_no_documents() -> None:
    """An empty source has a plan of no rows."""
    plan = plan_rows(torch.zeros(0, dtype=torch.int64), 8)

    assert 0 == plan.rows


def test_equals_change_places_with_the_order() -> None:
    """Slots hold pieces by length; equals in the order of the epoch."""
    lengths = torch.tensor([2, 5, 2, 2])

    assert [1, 3, 0, 2] == fill_slots(lengths, torch.tensor([3, 1, 0, 2])).tolist()


def test_packing_is_pure() -> None:
    """No input is written, no hidden randomness drawn."""
    plan: Plan = check_pure(lambda x: plan_rows(x, 4), torch.tensor([1, 4, 2]))
    check_pure(fill_slots, torch.tensor([1, 4, 2]), torch.tensor([2, 0, 1]))
    check_pure(
        lambda a, b: cut_documents(a, b, 4), torch.tensor([0]), torch.tensor([9])
    )

    assert 2 == plan.rows
