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
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor

from speedtronic.errors import CheckpointError, Damaged
from speedtronic.pure import tensor_header
from speedtronic.pure.strict_json import parse
from speedtronic.pure.tensor_header import Entry
from speedtronic.shell.atomic import BackgroundHash, Digest, create
from speedtronic.shell.regular import open_regular

_NAMES = tensor_header.NAMES
_RANK = {dtype: rank for rank, dtype in enumerate(tensor_header.DTYPES.values())}
_CHUNK = 1 << 24  # bytes, hashed and copied side by side
_TIED = "tied"


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
    header = tensor_header.encode(entries, told)
    if len(header) > tensor_header.MAX_HEADER:
        raise CheckpointError(f"{path.name} cannot hold so many names")
    with create(path) as file:
        file.write(header)
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
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            found = _read(path, _Hashing(file), size, digest)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    return found


def metadata(path: Path) -> dict[str, str]:
    """The metadata of a file; its tensors are not read.

    Raises:
        Damaged: the file is missing or not of this format.
    """
    return outline(path)[1]


def outline(path: Path) -> tuple[tuple[Entry, ...], dict[str, str], int]:
    """What a file holds: its tensors in their order, metadata, where tensors begin.

    Raises:
        Damaged: the file is missing or not of this format.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            entries, told = _read_header(_Hashing(file), size)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Damaged(f"{path} is not a whole safetensors file: {error}") from error
    return entries, told, size - sum(entry.size for entry in entries)


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
            _check_booleans(found[entry.name])
        for alias, name in _tied(told, found.keys()).items():
            found[alias] = found[name]
    except ValueError as error:
        raise Damaged(f"{path} is not a whole safetensors file: {error}") from error
    if digest is not None:
        digest.expect(path, source.digest())
    return found


def _read_header(
    source: _Hashing, size: int
) -> tuple[tuple[Entry, ...], dict[str, str]]:
    start = source.take(min(size, tensor_header.LENGTH_BYTES))
    length = tensor_header.header_length(start, size)
    return tensor_header.decode(source.take(length), size - len(start) - length)


def _check_storable(path: Path, tensors: Mapping[str, Tensor]) -> None:
    told = [
        f"{name!r} is {str(x.dtype).removeprefix('torch.')} ({x.layout})"
        for name, x in tensors.items()
        if x.dtype not in _NAMES or x.layout != torch.strided or x.is_quantized
    ]
    told += [
        f"{name!r} has {x.dim()} dimensions"
        for name, x in tensors.items()
        if x.dim() > tensor_header.MAX_DIMENSIONS
    ]
    if len(tensors) > tensor_header.MAX_TENSORS:
        told.append(f"{len(tensors)} tensors")
    told += (
        [f"the name {tensor_header.METADATA!r} is reserved"]
        if tensor_header.METADATA in tensors
        else []
    )
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


def _tied(metadata: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    tied = parse(metadata.get(_TIED, "{}"), 1)
    if not isinstance(tied, dict):
        raise ValueError("what is tied is not told by name")
    for alias, name in tied.items():
        if not isinstance(name, str) or alias in names or name not in names:
            raise ValueError(f"{alias[:40]!r} is tied to what is not there")
    return tied


def _check_booleans(tensor: Tensor) -> None:
    """Refuse bytes that are neither 0 nor 1, with which torch computes anything."""
    if tensor.dtype == torch.bool and (tensor.view(torch.uint8) > 1).any():
        raise ValueError("it holds booleans that are neither true nor false")


def bytes_of(tensor: Tensor) -> memoryview:
    """The elements in row-major order, as a file holds them; a view if possible."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    flat = plain.reshape(-1)
    if flat.stride(0) != 1:  # one element cut from a row counts as contiguous
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().data
