"""Samples to batches."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from speedtronic.errors import DataError
from speedtronic.shell.data.collate import collate, count_rows, count_tokens


def as_lists(batch: Any) -> Any:
    """A batch with lists for tensors."""
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    if isinstance(batch, tuple):
        return tuple(as_lists(b) for b in batch)
    return {name: as_lists(b) for name, b in batch.items()}


def test_causal_records_without_labels() -> None:
    """The targets are the next tokens; rows are filled up on the right."""
    batch = collate([{"input_ids": [1, 2, 3]}, {"input_ids": [4, 5]}])

    assert {
        "input_ids": [[1, 2], [4, 0]],
        "labels": [[2, 3], [5, -100]],
        "attention_mask": [[1, 1], [1, 0]],
    } == as_lists(batch)
    assert {torch.int64} == {values.dtype for values in batch.values()}


def test_rows_of_one_length_need_no_mask() -> None:
    """A mask that masks nothing is left out."""
    batch = collate([{"input_ids": [1, 2]}, {"input_ids": [4, 5]}])

    assert {"input_ids": [[1], [4]], "labels": [[2], [5]]} == as_lists(batch)


def test_labels_are_taken_as_shifted() -> None:
    """Given labels stand where they are."""
    batch = collate([{"input_ids": [1, 2], "labels": [2, -100]}], limit=("v", 3))

    assert {"input_ids": [[1, 2]], "labels": [[2, -100]]} == as_lists(batch)


def test_masked_tokens_are_not_targets() -> None:
    """Where a record's attention mask is 0 the label is -100."""
    record = {"input_ids": [0, 7, 8], "attention_mask": [0, 1, 1]}
    without = as_lists(collate([record]))
    given = as_lists(collate([{**record, "labels": [7, 8, 9]}]))

    assert [[7, 8]] == without["labels"]
    assert [[0, 1]] == without["attention_mask"]
    assert [[-100, 8, 9]] == given["labels"]


def test_other_fields_of_a_record_are_kept() -> None:
    """Their shapes must agree."""
    batch = collate([{"input_ids": [1, 2], "weight": w} for w in (0.5, 1.0)])

    assert [0.5, 1.0] == batch["weight"].tolist()


@pytest.mark.parametrize("make", [np.array, torch.tensor, list])
def test_ids_in_any_form(make: Any) -> None:
    """Lists, arrays and tensors."""
    assert [[1]] == collate([{"input_ids": make([1, 2])}])["input_ids"].tolist()


def test_tuples_place_by_place() -> None:
    """Image and label."""
    batch = collate([(torch.ones(2, 2), 3), (torch.zeros(2, 2), 1)])

    assert (2, 2, 2) == batch[0].shape
    assert [3, 1] == batch[1].tolist()


def test_numbers_and_arrays_keep_their_kind() -> None:
    """Integers are i64, Python floats f32, arrays what they are."""
    samples = [{"i": 1, "f": 0.5, "b": True, "a": np.ones(2, np.float64), "l": [1.5]}]
    batch = collate(samples)

    assert {
        "i": torch.int64,
        "f": torch.float32,
        "b": torch.bool,
        "a": torch.float64,
        "l": torch.float32,
    } == {name: values.dtype for name, values in batch.items()}


def test_deep_samples() -> None:
    """Mappings in tuples in mappings."""
    batch = collate([{"x": ({"y": 1}, [torch.ones(1), 2])}] * 2)

    assert {"x": ({"y": [1, 1]}, ([[1.0], [1.0]], [2, 2]))} == as_lists(batch)


def test_the_batch_does_not_share_memory_with_a_sample() -> None:
    """A sample that is changed later changes no batch."""
    sample = np.zeros(2)
    batch = collate([sample])
    sample += 1

    assert [[0.0, 0.0]] == batch.tolist()


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (["a"], "numbers: a sample is str 'a', expected a tensor"),
        ([None], "a sample is NoneType None"),
        ([torch.ones(2), torch.ones(3)], "float32[2] and float32[3]"),
        ([torch.ones(2), torch.ones(2).long()], "float32[2] and int64[2]"),
        ([(1, 2), (1,)], "a sample is a tuple of 2, another is not"),
        ([{"a": 1}, {"b": 1}], "a sample has ['b'], another has ['a']"),
        ([{"a": {"b": "x"}}], "a sample['a']['b'] is str 'x'"),
        ([{"input_ids": [1]}], "sample 0: 1 input_ids have no token to predict"),
        ([{"input_ids": [[1, 2]]}], "input_ids is int64[1, 2], expected one row"),
        ([{"input_ids": [1.5]}], "input_ids is float32[1], expected one row"),
        ([{"input_ids": "abc"}], "sample 0: input_ids is str 'abc'"),
        (
            [{"input_ids": [1, 2], "labels": [1]}],
            "2 input_ids, 1 labels and 2 entries of attention_mask",
        ),
    ],
)
def test_samples_that_do_not_fit(samples: list[Any], told: str) -> None:
    """The dataset, the place and what was found there are named."""
    with pytest.raises(DataError) as caught:
        collate(samples, "numbers")

    assert told in str(caught.value)
    assert str(caught.value).startswith("numbers")


def test_counting_targets() -> None:
    """Labels that are not -100; without labels the rows."""
    assert 2 == count_tokens({"labels": torch.tensor([[1, -100], [3, -100]])})
    assert 2 == count_tokens({"x": torch.ones(2, 5)})
    assert 3 == count_tokens((torch.ones(3, 5), torch.ones(3)))
    assert 4 == count_rows({"a": (torch.ones(4),)})


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"input_ids": [1, 9, 3]}, "input_ids has 9 at position 1"),
        ({"input_ids": [1, -1, 3]}, "input_ids has -1 at position 1"),
        ({"input_ids": [-100, 1]}, "input_ids has -100 at position 0"),
        ({"input_ids": [1, 2], "labels": [2, 7]}, "labels has 7 at position 1"),
        ({"input_ids": [1, 2], "labels": [-1, 7]}, "labels has -1 at position 0"),
    ],
)
def test_ids_that_the_model_has_not(record: dict[str, list[int]], told: str) -> None:
    """The id and the bound are told, not an index error of the model."""
    expected = f"numbers: sample 1: {told}, expected 0 to 6 (model.vocab_size 7)"
    with pytest.raises(DataError, match=re.escape(expected)):
        collate([{"input_ids": [1, 6]}, record], "numbers", ("model.vocab_size", 7))
