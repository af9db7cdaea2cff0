"""Named tensors in a safetensors file, hashed while they pass.

Dtypes, shapes and bits come back as they were. Two names of one storage are stored
once and come back as one tensor; the metadata entry ``tied`` says which.

The files are those of the safetensors format and equal, byte for byte, what its
library writes. The library is not used here because it builds the whole file in
memory and cannot hash it on the way: a checkpoint would be read again for its sum.
Nothing is ever pickled; sparse and quantised tensors are refused.
"""

import io
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor

from speedtronic.errors import CheckpointError, Damaged
from speedtronic.shell.atomic import BackgroundHash, Digest, create

# In the order of the format's library, which puts wide elements first, so that every
# tensor is aligned.
_DTYPES = {
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
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_RANK = {dtype: rank for rank, dtype in enumerate(_DTYPES.values())}
_CHUNK = 1 << 24  # bytes, hashed and copied side by side
_MAX_HEADER = 100_000_000  # bytes, the limit of the format's library
# What taking apart an arbitrary JSON value, or allocating by it, may raise.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RuntimeError)
_METADATA = "__metadata__"
_TIED = "tied"


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


def storage_of(tensor: Tensor) -> object:
    """What two names of one tensor have in common, and no others."""
    where = tensor.untyped_storage().data_ptr()
    if where == 0:  # empty, or without storage
        return id(tensor)
    view = (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
    return where, view, tensor.device


def write(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> Digest:
    """Write a new file and sync it; return its digest.

    Args:
        path: a name that is free.
        tensors: any shapes and devices, in any dtype of the format.
        metadata: text by key; ``format: pt`` is added for other tools.

    Raises:
        CheckpointError: naming each tensor that the format cannot hold.
        StorageError: the file cannot be written.
    """
    _check_storable(path, tensors)
    kept, tied = _without_ties(tensors)
    entries = _place(kept)
    told = {"format": "pt", **(metadata or {})}
    if tied:
        told[_TIED] = json.dumps(tied, sort_keys=True)
    with create(path) as file:
        file.write(_encode_header(entries, told))
        for entry in entries:
            data = bytes_of(kept[entry.name])
            for start in range(0, entry.size, _CHUNK):
                file.write(data[start : start + _CHUNK], steady=True)
    return file.digest()


def read(path: Path, digest: Digest | None = None) -> dict[str, Tensor]:
    """Read every tensor of a file onto the CPU, in one pass.

    Args:
        path: a safetensors file.
        digest: what its bytes must be; without it only the structure is checked.

    Raises:
        Damaged: the file is missing, not of this format, or has other bytes.
    """
    try:
        with path.open("rb", buffering=0) as file:
            found = _read(path, _Hashing(file), path.stat().st_size, digest)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    return found


def metadata(path: Path) -> dict[str, str]:
    """The metadata of a file; its tensors are not read.

    Raises:
        Damaged: the file is missing or not of this format.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = path.stat().st_size
            return _read_header(_Hashing(file), size)[1]
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    except _MALFORMED as error:
        raise Damaged(f"{path} is not a whole safetensors file: {error}") from error


def order(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names in the order in which a file holds them.

    >>> order({"b": torch.ones(1), "a": torch.ones(1), "n": torch.ones(1).long()})
    ['n', 'a', 'b']
    """
    return sorted(tensors, key=lambda name: (_RANK[tensors[name].dtype], name))


class _Hashing:
    """Reads exact amounts and hashes them."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._hash = BackgroundHash()
        self.digest = self._hash.digest

    def into(self, view: memoryview) -> None:
        for start in range(0, len(view), _CHUNK):
            chunk = view[start : start + _CHUNK]
            filled = 0
            while filled < len(chunk):
                count = self._file.readinto(chunk[filled:])
                if not count:
                    raise ValueError("it ends too early")
                filled += count
            self._hash.update(chunk)

    def take(self, size: int) -> bytes:
        data = bytearray(size)
        self.into(memoryview(data))
        return bytes(data)


def _read(
    path: Path, source: _Hashing, size: int, digest: Digest | None
) -> dict[str, Tensor]:
    if digest is not None and digest.size != size:
        digest.expect(path, Digest("", size))
    try:
        entries, told = _read_header(source, size)
        found = {}
        for entry in entries:
            found[entry.name] = torch.empty(entry.shape, dtype=entry.dtype)
            source.into(bytes_of(found[entry.name]))
        for alias, name in _tied(told).items():
            found[alias] = found[name]
    except _MALFORMED as error:
        raise Damaged(f"{path} is not a whole safetensors file: {error}") from error
    if digest is not None:
        digest.expect(path, source.digest())
    return found


def _read_header(source: _Hashing, size: int) -> tuple[list[Entry], dict[str, str]]:
    length = struct.unpack("<Q", source.take(8))[0] if size >= 8 else size
    if not 2 <= length <= min(size - 8, _MAX_HEADER):
        raise ValueError("its header has an impossible length")
    return _decode_header(source.take(length), size - 8 - length)


def _check_storable(path: Path, tensors: Mapping[str, Tensor]) -> None:
    told = [
        f"{name!r} is {str(x.dtype).removeprefix('torch.')} ({x.layout})"
        for name, x in tensors.items()
        if x.dtype not in _NAMES or x.layout != torch.strided or x.is_quantized
    ]
    told += [f"the name {_METADATA!r} is reserved"] if _METADATA in tensors else []
    if told:
        raise CheckpointError(f"{path.name} cannot hold: {'; '.join(told)}")


def _without_ties(
    tensors: Mapping[str, Tensor],
) -> tuple[dict[str, Tensor], dict[str, str]]:
    kept: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    first: dict[object, str] = {}
    for name, tensor in tensors.items():
        owner = first.setdefault(storage_of(tensor), name)
        if owner == name:
            kept[name] = tensor
        else:
            tied[name] = owner
    return kept, tied


def _place(tensors: Mapping[str, Tensor]) -> list[Entry]:
    entries = []
    start = 0
    for name in order(tensors):
        tensor = tensors[name]
        entries.append(Entry(name, tensor.dtype, tuple(tensor.shape), start))
        start += entries[-1].size
    return entries


def _encode_header(entries: list[Entry], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))}
    for entry in entries:
        header[entry.name] = {
            "dtype": _NAMES[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": [entry.start, entry.start + entry.size],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _decode_header(text: bytes, size: int) -> tuple[list[Entry], dict[str, str]]:
    header = json.loads(text)
    metadata = header.pop(_METADATA, {})
    entries = []
    for name, told in header.items():
        shape = tuple(told["shape"])
        start, end = told["data_offsets"]
        if any(type(n) is not int or n < 0 for n in (*shape, start, end)):
            raise ValueError(f"{name!r} has impossible numbers")
        entry = Entry(name, _DTYPES[told["dtype"]], shape, start)
        if end - start != entry.size:
            raise ValueError(f"{name!r} has {end - start} bytes, expected {entry.size}")
        entries.append(entry)
    entries.sort(key=lambda entry: (entry.start, entry.size))
    position = 0
    for entry in entries:
        if entry.start != position:
            raise ValueError(f"{entry.name!r} overlaps or leaves a gap")
        position += entry.size
    if position != size:
        raise ValueError(f"it holds {size} bytes of data, expected {position}")
    return entries, metadata


def _tied(metadata: Mapping[str, str]) -> dict[str, str]:
    tied: dict[str, str] = json.loads(metadata.get(_TIED, "{}"))
    return tied


def bytes_of(tensor: Tensor) -> memoryview:
    """The elements in row-major order, as a file holds them; a view if possible."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    flat = plain.reshape(-1)
    if flat.stride(0) != 1:  # one element cut from a row counts as contiguous
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().data
