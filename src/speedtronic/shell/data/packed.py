"""Files opened for reading, through gzip or zstd where their ending says so."""

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from speedtronic.errors import DataError

_PACKED_BYTES = 2**14  # read at a time; what they unpack to is held in memory


def open_stream(path: Path) -> BinaryIO:
    """Open a plain, ``.gz`` or ``.zst`` file for reading bytes.

    Raises:
        DataError: it cannot be opened, or the package for it is not installed.
    """
    packing = path.suffix.lower()
    try:
        if packing == ".gz":
            return gzip.open(path, "rb")  # type: ignore[return-value]
        if packing == ".zst":
            return io.BufferedReader(_Unpacked(_unpack(path)))
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


class _Unpacked(io.RawIOBase):
    """Bytes from an iterator as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._left = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def _unpack(path: Path) -> Iterator[bytes]:
    """The frames of a zstd file, to the last; the package would end early silently."""
    try:
        import zstandard
    except ImportError:
        raise DataError(
            f"{path} needs the zstandard package: pip install 'speedtronic[zstd]'"
        ) from None
    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    begun = False
    with path.open("rb") as handle:
        while data := handle.read(_PACKED_BYTES):
            while data:
                begun = True
                try:
                    yield frame.decompress(data)
                except zstandard.ZstdError as error:
                    raise OSError(str(error)) from error
                data = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame, begun = decompressor.decompressobj(), False
    if begun:
        raise EOFError("it ends inside a zstd frame")
