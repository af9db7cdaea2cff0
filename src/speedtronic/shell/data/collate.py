"""Samples to a batch: one rule for each shape that a sample may have.

- Causal records, mappings with ``input_ids``: rows of different lengths are filled up
  on the right. Without ``labels`` the targets are the tokens that follow; ``labels``
  that are given are taken as already shifted. Where the row is filled, or where the
  record's ``attention_mask`` is 0, labels are -100. ``attention_mask`` is in the batch
  only if some position is masked.
- Tensors, arrays and numbers: stacked; shapes and dtypes must agree.
- Lists of numbers count as arrays; Python floats become float32.
- Tuples, other lists and other mappings: place by place, as deep as they go.

Anything else is refused with the place and what was found there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speedtronic.errors import DataError
from speedtronic.shell.data.rows import IGNORE

Batch = Any  # a pytree of CPU tensors
_CAUSAL = ("input_ids", "labels", "attention_mask")


def collate(
    samples: Sequence[Any],
    name: str = "dataset",
    limit: tuple[str, int] | None = None,
) -> Batch:
    """One batch of CPU tensors from a list of samples.

    Args:
        samples: at least one.
        name: what to call the dataset in an error.
        limit: the config field that bounds the ids of causal records, and its value.

    Raises:
        DataError: the samples do not fit together, or an id is out of bounds.

    >>> collate([(torch.zeros(2), 1), (torch.ones(2), 0)])
    (tensor([[0., 0.],
            [1., 1.]]), tensor([1, 0]))
    >>> batch = collate([{"input_ids": [5, 6, 7]}, {"input_ids": [8, 9]}])
    >>> {name: values.tolist() for name, values in batch.items()}
    {'input_ids': [[5, 6], [8, 0]], 'labels': [[6, 7], [9, -100]],
    'attention_mask': [[1, 1], [1, 0]]}
    """
    if all(isinstance(s, Mapping) and "input_ids" in s for s in samples):
        batch = _collate_causal(samples, name)
        if limit is not None:
            _check_ids(batch, name, *limit)
        return batch
    return _collate_any(samples, f"{name}: a sample")


def count_tokens(batch: Batch) -> int:
    """The targets of a batch that count: labels that are not -100, else its rows.

    >>> count_tokens({"labels": torch.tensor([[1, -100]])})
    1
    >>> count_tokens((torch.zeros(3, 4), torch.zeros(3)))
    3
    """
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    if isinstance(labels, Tensor) and not labels.is_floating_point():
        return int((labels != IGNORE).sum())
    return count_rows(batch)


def count_rows(batch: Batch) -> int:
    """The first dimension of a batch."""
    while not isinstance(batch, Tensor):
        batch = next(iter(batch.values() if isinstance(batch, Mapping) else batch))
    return len(batch)


def _collate_causal(samples: Sequence[Mapping[str, Any]], name: str) -> Batch:
    rows = [_causal_row(s, f"{name}: sample {i}") for i, s in enumerate(samples)]
    longest = max(len(ids) for ids, _, _ in rows)
    inputs = torch.zeros(len(rows), longest, dtype=torch.int64)
    labels, mask = torch.full_like(inputs, IGNORE), torch.zeros_like(inputs)
    for number, (ids, targets, attended) in enumerate(rows):
        inputs[number, : len(ids)] = ids
        labels[number, : len(ids)] = targets
        mask[number, : len(ids)] = attended
    batch = {"input_ids": inputs, "labels": labels}
    if not bool(mask.all()):
        batch["attention_mask"] = mask
    others = [{k: v for k, v in s.items() if k not in _CAUSAL} for s in samples]
    return batch | _collate_any(others, f"{name}: a sample")


def _check_ids(batch: Mapping[str, Tensor], name: str, field: str, size: int) -> None:
    counted = batch["labels"].masked_fill(batch["labels"] == IGNORE, 0)
    for column, ids in (("input_ids", batch["input_ids"]), ("labels", counted)):
        wrong = ((ids < 0) | (ids >= size)).nonzero()
        if len(wrong):
            row, place = wrong[0].tolist()
            raise DataError(
                f"{name}: sample {row}: {column} has {int(ids[row, place])} at "
                f"position {place}, expected 0 to {size - 1} ({field} {size})"
            )


def _causal_row(sample: Mapping[str, Any], where: str) -> tuple[Tensor, Tensor, Tensor]:
    """Input ids, labels and attention mask, i64[positions] each."""
    ids = _row(sample["input_ids"], f"{where}: input_ids")
    attended = torch.ones_like(ids)
    if sample.get("attention_mask") is not None:
        attended = _row(sample["attention_mask"], f"{where}: attention_mask")
    given = sample.get("labels")
    labels = ids if given is None else _row(given, f"{where}: labels")
    if not len(ids) == len(attended) == len(labels):
        raise DataError(
            f"{where}: {len(ids)} input_ids, {len(labels)} labels and "
            f"{len(attended)} entries of attention_mask; expected as many of each"
        )
    if given is not None:
        return ids, torch.where(attended == 0, IGNORE, labels), attended
    if len(ids) < 2:
        raise DataError(f"{where}: {len(ids)} input_ids have no token to predict")
    return ids[:-1], torch.where(attended == 0, IGNORE, ids)[1:], attended[:-1]


def _row(values: Any, where: str) -> Tensor:
    row = _tensor(values, where)
    if row.dim() != 1 or row.is_floating_point():
        kind = f"{row.dtype}{list(row.shape)}".removeprefix("torch.")
        raise DataError(f"{where} is {kind}, expected one row of integers")
    return row.to(torch.int64)


def _collate_any(samples: Sequence[Any], where: str) -> Batch:
    first = samples[0]
    if isinstance(first, Mapping):
        for sample in samples:
            if not isinstance(sample, Mapping) or sample.keys() != first.keys():
                found = list(sample) if isinstance(sample, Mapping) else type(sample)
                raise DataError(f"{where} has {found}, another has {list(first)}")
        return {
            key: _collate_any([s[key] for s in samples], f"{where}[{key!r}]")
            for key in first
        }
    if isinstance(first, tuple) or (isinstance(first, list) and not _numeric(first)):
        lengths = {len(s) if isinstance(s, type(first)) else None for s in samples}
        if lengths != {len(first)}:
            raise DataError(
                f"{where} is a {type(first).__name__} of {len(first)}, "
                "another is not; only input_ids may differ in length"
            )
        return tuple(
            _collate_any(column, f"{where}[{place}]")
            for place, column in enumerate(zip(*samples, strict=True))
        )
    tensors = [_tensor(sample, where) for sample in samples]
    kinds = {f"{x.dtype}{list(x.shape)}".removeprefix("torch.") for x in tensors}
    if len(kinds) > 1:
        raise DataError(f"{where} is {' and '.join(sorted(kinds))}, expected the same")
    return torch.stack(tensors)


def _tensor(value: Any, where: str) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, np.ndarray | np.generic) or _numeric(value):
        array = np.asarray(value)
        if isinstance(value, float | list) and array.dtype == np.float64:
            array = array.astype(np.float32)
        return torch.from_numpy(array.copy())
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    raise DataError(
        f"{where} is {type(value).__name__} {shown}, expected a tensor, an array, "
        "a number, or a tuple or mapping of these"
    )


def _numeric(value: Any) -> bool:
    """Whether a value is a number, or lists of numbers of one shape."""
    if not isinstance(value, list):
        return isinstance(value, bool | int | float)
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except (TypeError, ValueError):
        return False
