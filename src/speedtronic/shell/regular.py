"""Files that others may have put there, opened for reading.

A pipe makes its reader wait for ever and a device never ends, so only regular files
are read, and never more of them than the reader allows.
"""

import errno
import io
import os
import stat
from pathlib import Path

_PIECE = 1 << 16  # bytes


def open_regular(path: Path) -> io.FileIO:
    """Open a regular file, or a link to one; it is not buffered.

    Raises:
        OSError: it is missing, cannot be read, or is something else.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return io.FileIO(descriptor, "rb")


def read_limited(path: Path, limit: int) -> bytes:
    """All bytes of a small regular file.

    Raises:
        OSError: as `open_regular`, or it has more than ``limit`` bytes.
    """
    with open_regular(path) as file:
        data = bytearray()
        while len(data) <= limit and (piece := file.read(_PIECE)):
            data += piece
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes")
    return bytes(data)
