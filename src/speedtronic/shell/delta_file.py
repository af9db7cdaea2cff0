"""A delta in a safetensors file, read in pieces: it never has to be in memory.

Pieces are read rather than mapped, so that the memory of a process that aggregates is
what it works on, and does not grow by the pages of every file it has seen.

Absent on purpose: writing (see `speedtronic.shell.blobs`) and the header of the round's
protocol, which is text in ``metadata`` here.
"""

import hashlib
import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import torch
from torch import Tensor

from speedtronic.errors import Damaged
from speedtronic.pure import tensor_header
from speedtronic.pure.delta import Delta, Weights, delta_problems, from_named
from speedtronic.pure.reduction import (
    ROW,
    add_rows,
    all_finite,
    fold_row,
    real,
    square,
)
from speedtronic.pure.tensor_header import label
from speedtronic.shell import blobs
from speedtronic.shell.regular import open_regular

_WIDEST = 8  # bytes of one element


@attrs.frozen(kw_only=True)
class Inspection:
    """What one pass over the tensors of a file found."""

    payload: str  # sha256 of the tensors' labels and bytes, in the file's order
    payload_bytes: int
    mismatch: tuple[str, ...]  # what does not fit the model: names, shapes, dtypes
    finite: bool
    norm: float  # 2-norm of the parameters, added in a fixed order; see `delta.norm`


class DeltaFile:
    """An open file of a delta; see `open_delta`."""

    def __init__(
        self,
        path: Path,
        file: io.FileIO,
        start: int,
        likes: dict[str, Tensor],
        metadata: dict[str, str],
        exact: bool,
    ) -> None:
        self.path = path
        self.exact = exact  # its header is written as `blobs.write` does
        self.metadata = metadata
        self.likes = likes  # by flat name, on the meta device, in the file's order
        self._file = file
        self._buffer = torch.empty(ROW * _WIDEST, dtype=torch.uint8)
        self._bytes = self._buffer.numpy()
        self._places: dict[str, tuple[int, torch.dtype]] = {}
        place = start
        for name, like in likes.items():  # the format leaves no gaps
            self._places[name] = place, real(like).dtype
            place += _size(like)

    def outline(self) -> Delta:
        """The delta without its content: tensors on the meta device.

        Raises:
            ValueError: a name is not of a delta.
        """
        return from_named(self.likes)

    def read(self, name: str, start: int, stop: int) -> Tensor:
        """Real elements ``start`` to ``stop - 1``, flat; a complex element is two.

        At most `ROW` of them, in memory that the next call uses again.

        Raises:
            Damaged: the file ends before, cannot be read, or holds no such elements.
        """
        first, dtype = self._places[name]
        where = first + start * dtype.itemsize
        size = (stop - start) * dtype.itemsize
        try:
            self._file.seek(where)
            count = self._file.readinto(self._bytes[:size].data)
        except OSError as error:
            raise Damaged(f"{self.path} cannot be read: {error}") from error
        if count != size:
            raise Damaged(
                f"{self.path} ends at byte {where + count}, before its tensors"
            )
        if dtype == torch.bool and (self._buffer[:size] > 1).any():
            raise Damaged(f"{self.path}: {name!r} holds what is neither true nor false")
        return self._buffer[:size].view(dtype)

    def inspect(self, base: Weights) -> Inspection:
        """Judge the delta for ``base``, and hash it, in one pass.

        Raises:
            Damaged: the file ends before, or cannot be read.
        """
        payload = hashlib.sha256()
        finite = True
        squares: dict[str, Tensor] = {}
        for name, like in self.likes.items():
            payload.update(label(name, like.dtype, like.shape))
            total = torch.zeros(0, dtype=torch.float64)
            for start, stop in self.spans(name):
                piece = self.read(name, start, stop)
                payload.update(piece.view(torch.uint8).numpy().data)
                finite = finite and all_finite(piece)
                if name.startswith("params."):
                    total = add_rows(total, [square(piece)])
            squares[name] = fold_row(total)
        try:
            mismatch = delta_problems(base, self.outline())
        except ValueError as error:
            mismatch = [str(error)]
        total_squares = 0.0
        for name in sorted(squares):  # not `sum`, which rounds as Python's version does
            total_squares += squares[name].item()
        return Inspection(
            payload=payload.hexdigest(),
            payload_bytes=sum(map(_size, self.likes.values())),
            mismatch=tuple(mismatch),
            finite=finite,
            norm=math.sqrt(total_squares),
        )

    def spans(self, name: str) -> Iterator[tuple[int, int]]:
        """Pieces of ``name`` as (start, stop), every real element in exactly one."""
        return spans(real(self.likes[name]).numel())


def spans(size: int) -> Iterator[tuple[int, int]]:
    """Cut ``size`` elements into rows of the length that pure reductions use.

    >>> list(spans(2 * ROW + 1))
    [(0, 32768), (32768, 65536), (65536, 65537)]
    """
    return ((start, min(start + ROW, size)) for start in range(0, size, ROW))


@contextmanager
def open_delta(path: Path) -> Iterator[DeltaFile]:
    """Open a safetensors file; its structure is checked, its content is not read.

    Raises:
        Damaged: it cannot be read, or is no whole file of that format.
    """
    entries, metadata, start = blobs.outline(path)
    likes = {
        e.name: torch.empty(e.shape, dtype=e.dtype, device="meta") for e in entries
    }
    try:
        opened = open_regular(path)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    with opened:
        written = tensor_header.encode(entries, metadata)
        exact = len(written) == start and opened.read(start) == written
        exact = exact and list(likes) == blobs.order(likes)
        yield DeltaFile(path, opened, start, likes, metadata, exact)


def _size(like: Tensor) -> int:
    return like.numel() * like.dtype.itemsize
