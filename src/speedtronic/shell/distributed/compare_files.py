"""Two files of a global model or its momentum, compared row by row.

Absent on purpose: judging. Whoever compares knows which of the two ought to be right.
"""

import math
from pathlib import Path

import attrs

from speedtronic.pure.difference import Difference, difference, joined
from speedtronic.shell.delta_file import DeltaFile, open_delta


@attrs.frozen(kw_only=True)
class Comparison:
    """How far two files are apart."""

    first: str  # the first tensor by name that differs, in words; empty if none does
    norm: float  # 2-norm of the differences of all floating tensors


def compare(published: Path, replayed: Path) -> Comparison:
    """Compare two safetensors files, a row of each in memory at a time.

    Raises:
        Damaged: one of them is not a whole file of that format.
    """
    first, squares = "", 0.0
    with open_delta(published) as one, open_delta(replayed) as other:
        for name in sorted(one.likes.keys() | other.likes.keys()):
            told = _outline(name, one, other)
            if not told:
                found = _difference(name, one, other)
                told = str(found) if found.elements else ""
                dtype = one.likes[name].dtype
                if dtype.is_floating_point or dtype.is_complex:
                    squares += found.squares
            if told and not first:
                first = f"tensor {name!r}: {told}"
    return Comparison(first=first, norm=math.sqrt(squares))


def _outline(name: str, one: DeltaFile, other: DeltaFile) -> str:
    """In what the published and the replayed tensor differ without their content."""
    if name not in one.likes:
        return "it is not in the published file"
    if name not in other.likes:
        return "the published file has it, the model does not"
    a, b = one.likes[name], other.likes[name]
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        shapes = [f"{x.dtype}{list(x.shape)}".removeprefix("torch.") for x in (a, b)]
        return f"published as {shapes[0]}, expected {shapes[1]}"
    return ""


def _difference(name: str, one: DeltaFile, other: DeltaFile) -> Difference:
    found = Difference()
    for start, stop in one.spans(name):
        pair = one.read(name, start, stop), other.read(name, start, stop)
        found = joined(found, difference(*pair))
    return found
