"""The header of a safetensors file: which tensors it holds, and where.

A header may have been written by anybody. Its limits keep the work of reading it
proportional to its length: the number of bytes and tensors, the dimensions of a shape
and their size. Tensors fill the rest of the file without a gap and without overlapping,
so what a header claims can never be more than what the file has.

Absent on purpose: files (see `speedtronic.shell.blobs`), and the types of the format
that torch computes nothing with.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch

from speedtronic.pure.strict_json import parse

# In the order of the format's library, which puts wide elements first, so that every
# tensor is aligned.
DTYPES = {
    "U64": torch.uint64,
    "I64": torch.int64,
    "F64": torch.float64,
    "C64": torch.complex64,
    "F32": torch.float32,
    "U32": torch.uint32,
    "I32": torch.int32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "U16": torch.uint16,
    "I16": torch.int16,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
METADATA = "__metadata__"
LENGTH_BYTES = 8  # before the header: how long it is
MAX_HEADER = 1 << 24  # bytes; the format's library allows six times as much
MAX_TENSORS = 100_000
MAX_DIMENSIONS = 64  # what torch's operations take
_LARGEST = 2**62  # of a dimension, an offset and a size in bytes
_DEPTH = 3  # the header, a tensor, its shape


@attrs.frozen
class Entry:
    """Where one tensor lies; ``start`` counts from the end of the header."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def label(name: str, dtype: torch.dtype, shape: Sequence[int]) -> bytes:
    """What a sum over tensors takes in before the bytes of each.

    Without it two tensors of the same size could change names under the same sum.

    >>> label("w", torch.float32, (2, 3))
    b'["w","F32",[2,3]]'
    """
    told = [name, NAMES[dtype], list(shape)]
    return json.dumps(told, separators=(",", ":")).encode()


def header_length(start: bytes, size: int) -> int:
    """How many bytes of header follow the first eight of a file.

    Args:
        start: the first `LENGTH_BYTES` bytes of the file, or all that it has.
        size: bytes of the file.

    Raises:
        ValueError: no file of that size has such a header, or it is beyond the limit.

    >>> header_length(struct.pack("<Q", 2), 10)
    2
    >>> header_length(struct.pack("<Q", 2**63), 10)
    Traceback (most recent call last):
    ValueError: its header has an impossible length
    """
    length = struct.unpack("<Q", start)[0] if len(start) == LENGTH_BYTES else size
    if not 2 <= length <= min(size - LENGTH_BYTES, MAX_HEADER):
        raise ValueError("its header has an impossible length")
    return length


def encode(entries: Sequence[Entry], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a file before its tensors.

    >>> encode([], {})
    b'\\x18\\x00\\x00\\x00\\x00\\x00\\x00\\x00{"__metadata__":{}}      '
    """
    header: dict[str, Any] = {METADATA: dict(sorted(metadata.items()))}
    for entry in entries:
        header[entry.name] = {
            "dtype": NAMES[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": [entry.start, entry.start + entry.size],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def decode(text: bytes, size: int) -> tuple[tuple[Entry, ...], dict[str, str]]:
    """The tensors in the order of the file, and the metadata.

    Args:
        text: the header, without its length.
        size: bytes of the file that follow on it.

    Raises:
        ValueError: it is no header, or not the header of so many bytes.

    >>> entry = Entry("w", torch.float32, (2,), 0)
    >>> decode(encode([entry], {"a": "b"})[8:], 8) == ((entry,), {"a": "b"})
    True
    >>> decode(encode([entry], {})[8:], 9)
    Traceback (most recent call last):
    ValueError: it holds 9 bytes of data, expected 8
    """
    header = parse(text, _DEPTH)
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    metadata = _metadata(header.pop(METADATA, {}))
    if len(header) > MAX_TENSORS:
        raise ValueError(f"it holds {len(header)} tensors, at most {MAX_TENSORS} do")
    entries = [_entry(name, told) for name, told in header.items()]
    entries.sort(key=lambda entry: (entry.start, entry.size))
    position = 0
    for entry in entries:
        if entry.start != position:
            raise ValueError(f"{_short(entry.name)} overlaps or leaves a gap")
        position += entry.size
    if position != size:
        raise ValueError(f"it holds {size} bytes of data, expected {position}")
    return tuple(entries), metadata


def _metadata(told: Any) -> dict[str, str]:
    if not isinstance(told, dict) or not all(isinstance(v, str) for v in told.values()):
        raise ValueError("its metadata are not texts by name")
    return told


def _entry(name: str, told: Any) -> Entry:
    if not isinstance(told, dict) or told.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{_short(name)} is not described as a tensor is")
    dtype, shape, offsets = told["dtype"], told["shape"], told["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"{_short(name)} is of the unknown type {_short(dtype)}")
    if not _sizes(shape, MAX_DIMENSIONS) or not _sizes(offsets, 2) or len(offsets) != 2:
        raise ValueError(f"{_short(name)} has impossible numbers")
    total = 1
    for size in shape:  # also beside a dimension of 0, as torch counts
        total *= max(1, size)
        if total > _LARGEST:
            raise ValueError(f"{_short(name)} has impossible numbers")
    entry = Entry(name, DTYPES[dtype], tuple(shape), offsets[0])
    if offsets[1] - offsets[0] != entry.size:
        found = offsets[1] - offsets[0]
        raise ValueError(f"{_short(name)} has {found} bytes, expected {entry.size}")
    return entry


def _sizes(value: Any, most: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= most
        and all(type(n) is int and 0 <= n <= _LARGEST for n in value)
    )


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 100 else f"{told[:97]}..."
