"""Numbers in a file, read where they lie.

Rows are read with ``pread``, not through a mapping: a page fault in a mapped file may
make megabytes resident, so that a process which reads a large file in random order
grows to the size of the file, and a file that is cut short under a mapping kills the
process. The system's cache serves both ways alike.
"""

import os
import weakref
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from speedtronic.errors import DataError

Array = np.ndarray[Any, Any]


class Numbers(Protocol):
    """Numbers that can be read anywhere."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def windows(self, starts: Array, length: int) -> Array:
        """The ``length`` numbers from each start, [n, length]."""
        ...

    def spans(self, starts: Array, lengths: Array) -> Array:
        """The numbers from each start, as many as its length, end to end."""
        ...


class FileNumbers:
    """The numbers of one file, which stays open.

    Args:
        path: the file.
        dtype: of the numbers, little-endian.
    """

    def __init__(self, path: Path, dtype: str) -> None:
        self._path = path
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._size = os.fstat(self._file).st_size // self._dtype.itemsize

    def __len__(self) -> int:
        return self._size

    def windows(self, starts: Array, length: int) -> Array:
        """The ``length`` numbers from each start, [n, length]; read-only.

        Raises:
            DataError: the file became shorter.
        """
        width = self._dtype.itemsize
        offsets = (starts * width).tolist()
        read = [os.pread(self._file, length * width, offset) for offset in offsets]
        return self._array(read, len(offsets) * length).reshape(-1, length)

    def spans(self, starts: Array, lengths: Array) -> Array:
        """The numbers from each start, end to end; read-only.

        Raises:
            DataError: the file became shorter.
        """
        width = self._dtype.itemsize
        sizes, offsets = (lengths * width).tolist(), (starts * width).tolist()
        read = [
            os.pread(self._file, size, offset)
            for size, offset in zip(sizes, offsets, strict=True)
        ]
        return self._array(read, int(lengths.sum()))

    def _array(self, read: list[bytes], expected: int) -> Array:
        data = b"".join(read)
        if len(data) != expected * self._dtype.itemsize:
            raise DataError(f"{self._path} became shorter while it was in use")
        return np.frombuffer(data, self._dtype)


def ranges(starts: Array, lengths: Array) -> Array:
    """``arange(s, s + n)`` for each start and length, end to end.

    >>> ranges(np.array([7, 1]), np.array([2, 3]))
    array([7, 8, 1, 2, 3])
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
