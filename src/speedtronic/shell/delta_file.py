"""A delta in a safetensors file, read in pieces: it never has to be in memory.

Pieces are read into fresh memory rather than mapped, so that the memory of a process
that aggregates is what it works on, and does not grow with the files it has seen.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from speedtronic.errors import Damaged
from speedtronic.pure.delta import Delta, Weights, delta_problems, from_named
from speedtronic.pure.reduction import ROW, all_finite, real

_WIDEST = 8  # bytes of one element


class DeltaFile:
    """An open file of a delta; see `open_delta`."""

    def __init__(self, path: Path, descriptor: int, likes: dict[str, Tensor]) -> None:
        self.path = path
        self.likes = likes  # by flat name, on the meta device, in the file's order
        self._descriptor = descriptor
        self._buffer = torch.empty(ROW * _WIDEST, dtype=torch.uint8)
        self._bytes = self._buffer.numpy()
        self._places: dict[str, tuple[int, torch.dtype]] = {}
        start = os.fstat(descriptor).st_size - sum(map(_size, likes.values()))
        for name, like in likes.items():  # the format leaves no gaps
            self._places[name] = start, real(like).dtype
            start += _size(like)

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
            Damaged: the file ends before, or cannot be read.
        """
        first, dtype = self._places[name]
        where = first + start * dtype.itemsize
        size = (stop - start) * dtype.itemsize
        try:
            count = os.preadv(self._descriptor, [self._bytes[:size].data], where)
        except OSError as error:
            raise Damaged(f"{self.path} cannot be read: {error}") from error
        if count != size:
            raise Damaged(
                f"{self.path} ends at byte {where + count}, before its tensors"
            )
        return self._buffer[:size].view(dtype)

    def problems(self, base: Weights) -> list[str]:
        """Why this delta cannot count for ``base``: what does not fit or is not finite.

        The whole file is read once, piece by piece.
        """
        try:
            told = delta_problems(base, self.outline())
        except ValueError as error:
            return [str(error)]
        return told + [
            f"{name} holds a NaN or an infinity"
            for name in self.likes
            if not all(all_finite(self.read(name, *span)) for span in self.spans(name))
        ]

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
    try:
        with safe_open(path, framework="pt") as file:
            names = file.offset_keys()
            likes = {name: file.get_tensor(name).to("meta") for name in names}
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, SafetensorError) as error:
        raise Damaged(f"{path} is not a whole safetensors file: {error}") from error
    try:
        yield DeltaFile(path, descriptor, likes)
    finally:
        os.close(descriptor)


def _size(like: Tensor) -> int:
    return like.numel() * like.dtype.itemsize
