"""A node's progress inside a checkpoint: the record as JSON, the vectors as tensors.

Both belong to one step boundary, as the model of the same checkpoint does.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from speedtronic.errors import CheckpointError, Corrupt
from speedtronic.pure.delta import Delta, Weights, delta_problems
from speedtronic.pure.progress import Progress
from speedtronic.pure.round import record as records
from speedtronic.pure.round.record import Record
from speedtronic.pure.tree import check_same

KEY = "round"  # of the record, in a checkpoint's values
_PARTS = {"base": Weights, "cut": Delta, "sent": Delta, "error": Delta}


def to_tensors(record: Record, progress: Progress | None) -> dict[str, Tensor]:
    """The vectors by name; cut and sent only while a delta is pending."""
    if progress is None:
        return {}
    left_out = () if record.pending else ("cut", "sent")
    return {
        f"{KEY}/{part}/{kind}/{name}": x
        for part in _PARTS
        if part not in left_out and getattr(progress, part) is not None
        for kind in ("params", "buffers")
        for name, x in getattr(getattr(progress, part), kind).items()
    }


def from_checkpoint(
    values: Mapping[str, Any], tensors: Mapping[str, Tensor], likes: Weights
) -> tuple[Record, Progress | None] | None:
    """What `to_tensors` and the record's plain form were made of.

    Args:
        values: of the checkpoint.
        tensors: of the checkpoint.
        likes: the model, on the meta device.

    Returns:
        None if the checkpoint is of a run that trained alone.

    Raises:
        CheckpointError: it holds something else than this run would have written.
    """
    if KEY not in values:
        return None
    try:
        record = records.from_plain(values[KEY])
        found = {part: _part(part, tensors) for part in _PARTS}
        if found["base"] is None:
            _check(not record.joined, "no base of a node that has joined")
            return record, None
        progress = Progress(**found)
        check_same("params", likes.params, progress.base.params)
        check_same("buffers", likes.buffers, progress.base.buffers)
        pending = record.pending is not None
        _check(
            (progress.sent is not None) == pending, "a pending delta without vectors"
        )
        for part in ("cut", "sent", "error"):
            if found[part] is not None:
                told = delta_problems(progress.base, found[part])
                _check(not told, f"{part}: {'; '.join(told)}")
    except (Corrupt, ValueError, AttributeError) as error:
        raise CheckpointError(f"the checkpoint's round: {error}") from error
    return record, progress


def _part(part: str, tensors: Mapping[str, Tensor]) -> Any:
    kinds: dict[str, dict[str, Tensor]] = {"params": {}, "buffers": {}}
    start = f"{KEY}/{part}/"
    for path, x in tensors.items():
        if path.startswith(start):
            kind, _, name = path.removeprefix(start).partition("/")
            _check(kind in kinds, f"unexpected {path}")
            kinds[kind][name] = x
    return _PARTS[part](**kinds) if kinds["params"] else None


def _check(right: bool, otherwise: str) -> None:
    if not right:
        raise ValueError(otherwise)
