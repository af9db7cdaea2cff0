"""A file of numbers mapped into memory, which does not stay in memory.

Pages that were read count as resident until they are given back. After every
`KEEP_BYTES` of reading the whole mapping is given back to the system, which keeps
the pages cached as long as it likes, so a process that reads a huge file in any
order stays small.
"""

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

KEEP_BYTES = 96 * 2**20
_FAULT_BYTES = 64 * 2**10  # what one page fault maps at most


class Mapped:
    """A read-only array over ``path``; ``array`` has the given dtype and shape.

    Args:
        path: the file; it must not be empty.
        dtype: of the elements, little-endian.
        columns: None for a one-dimensional array.
    """

    def __init__(self, path: Path, dtype: str, columns: int | None = None) -> None:
        with path.open("rb") as handle:
            self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        shape = (-1,) if columns is None else (-1, columns)
        element = np.dtype(dtype).newbyteorder("<")
        self.array: np.ndarray[Any, Any] = np.frombuffer(self._map, element)
        self.array = self.array.reshape(shape)
        self._touched = 0

    def windows(self, starts: Any, length: int) -> np.ndarray[Any, Any]:
        """The ``length`` elements from each start, as a new array [n, length]."""
        result: np.ndarray[Any, Any] = sliding_window_view(self.array, length)[starts]
        self._read(len(starts) * (_FAULT_BYTES + length * self.array.itemsize))
        return result

    def span(self, start: int, stop: int) -> np.ndarray[Any, Any]:
        """The elements from ``start`` to ``stop``, as a new array."""
        result = self.array[start:stop].copy()
        self._read(result.nbytes)
        return result

    def _read(self, num_bytes: int) -> None:
        self._touched += num_bytes
        if self._touched > KEEP_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._touched = 0
