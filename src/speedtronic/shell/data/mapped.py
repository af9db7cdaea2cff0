"""A file of numbers mapped into memory, which does not stay in memory.

Pages that were read count as resident until they are given back. After every
`KEEP_BYTES` of reading the whole mapping is given back to the system, which keeps
the pages cached as long as it likes, so a process that reads a huge file in any
order stays small.
"""

import mmap
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

KEEP_BYTES = 64 * 2**20
_FAULT_BYTES = 64 * 2**10  # what one page fault maps at most
Array = np.ndarray[Any, Any]


class Numbers(Protocol):
    """Numbers that can be read anywhere."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def windows(self, starts: Array, length: int) -> Array:
        """The ``length`` numbers from each start, as a new array [n, length]."""
        ...

    def take(self, index: Array) -> Array:
        """The numbers at ``index``, as a new array of its shape."""
        ...


class Mapped:
    """Numbers of one file.

    Args:
        path: the file; it must not be empty.
        dtype: of the elements, little-endian.
        columns: None for a one-dimensional array, whose rows are numbers.
    """

    def __init__(self, path: Path, dtype: str, columns: int | None = None) -> None:
        with path.open("rb") as handle:
            self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        shape = (-1,) if columns is None else (-1, columns)
        element = np.dtype(dtype).newbyteorder("<")
        self.array: Array = np.frombuffer(self._map, element).reshape(shape)
        self._touched = 0

    def __len__(self) -> int:
        return len(self.array)

    def windows(self, starts: Array, length: int) -> Array:
        """The ``length`` numbers from each start, as a new array [n, length]."""
        result: Array = sliding_window_view(self.array, length)[starts]
        self._read(len(starts) * (_FAULT_BYTES + length * self.array.itemsize))
        return result

    def take(self, index: Array) -> Array:
        """The numbers at ``index``, as a new array of its shape."""
        result: Array = self.array[index]
        self._read(_FAULT_BYTES + result.nbytes)
        return result

    def _read(self, num_bytes: int) -> None:
        self._touched += num_bytes
        if self._touched > KEEP_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._touched = 0
