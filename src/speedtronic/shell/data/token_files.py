"""Files that hold token ids already: raw ``.bin``, ``.npy`` and safetensors.

- ``.bin``: ids end to end in ``data.token_dtype`` (u16 unless told otherwise), as
  nanoGPT writes them.
- ``.npy``: one array of integers.
- ``.safetensors``: the tensor ``tokens`` or ``input_ids``, or the only one there is.

A file with one dimension is one document, unless the mark of `end_of_document` stands
in it: then a document ends after each mark. A file with two dimensions has a document
per row. The ids are copied into a token store, so that they are checked and hashed
once, and later changes of the files do not change a run.
"""

import math
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from speedtronic.errors import DataError
from speedtronic.pure import tensor_header
from speedtronic.shell.data.files import (
    PACKED_ENDINGS,
    FileState,
    check_unchanged,
    ending,
    look,
)
from speedtronic.shell.data.numbers import Array
from speedtronic.shell.data.source import Chunk

CHUNK_TOKENS = 2**20
_NAMES = ("tokens", "input_ids")
_SAFETENSORS = {"U8": "u1", "U16": "u2", "I16": "i2", "U32": "u4", "I32": "i4"}
_SAFETENSORS |= {"I64": "i8", "U64": "u8"}
_NPY = b"\x93NUMPY"
_NPY_VERSIONS = {b"\x01\x00": "<H", b"\x02\x00": "<I", b"\x03\x00": "<I"}
_MAX_NPY_HEADER = 1 << 16  # bytes
_NPY_HEADER = re.compile(
    r"\{\s*'descr': ?'([<>|=]?[a-zA-Z][0-9]{0,2})',"
    r" ?'fortran_order': ?(True|False),"
    r" ?'shape': ?\(((?:[0-9]{1,18}L?, ?)*(?:[0-9]{1,18}L?)?)\),? ?\}\s*",
    re.ASCII,
)


@attrs.frozen
class _Layout:
    """Where the ids lie in a file."""

    offset: int
    dtype: np.dtype[Any]
    tokens: int
    row: int | None  # tokens per document


class TokenFiles:
    """Token files, one part each; a `Source`.

    Args:
        paths: at least one file.
        name: what to call them.
        dtype: of ``.bin`` files.
        mark: the id after which a document ends.

    Raises:
        DataError: a file is missing, empty, or not what its ending says.
    """

    masked = False
    mark: int | None = None  # a mark that stands in the files is not added once more

    def __init__(
        self, paths: list[Path], name: str, dtype: str, mark: int | None
    ) -> None:
        self.name = name
        self._dtype, self._mark = dtype, mark
        self._files = [look(path) for path in paths]
        self._layouts = [_layout(file, dtype) for file in self._files]
        sizes = [2 ** (8 * min(4, f.dtype.itemsize)) for f in self._layouts]
        self.vocab_size = max(sizes)
        if not any(layout.tokens for layout in self._layouts):
            raise DataError(f"{name} is empty (0 tokens)")

    def identity(self) -> Any:
        """Names, sizes and times of the files, and how they are read."""
        files = [file.identity() for file in self._files]
        return ["tokens", files, self._dtype, self._mark]

    def parts(self) -> int:
        """Number of files."""
        return len(self._files)

    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self._files)

    def check(self) -> None:
        """Compare every file with what it was."""
        check_unchanged(self._files)

    def chunks(self, part: int, start: int) -> Iterator[Chunk]:
        """The ids of one file from token ``start`` on."""
        layout, path = self._layouts[part], self._files[part].path
        done = start
        with path.open("rb") as handle:
            handle.seek(layout.offset + start * layout.dtype.itemsize)
            while done < layout.tokens:
                size = min(CHUNK_TOKENS, layout.tokens - done)
                read = handle.read(size * layout.dtype.itemsize)
                ids = np.frombuffer(
                    read, layout.dtype, len(read) // layout.dtype.itemsize
                )
                if len(ids) < size:
                    raise DataError(f"{path} ends at token {done + len(ids)}")
                _check_range(ids, path, done)
                yield from self._documents(ids, done, layout)
                done += size

    def _documents(self, ids: Array, done: int, layout: _Layout) -> Iterator[Chunk]:
        """One chunk of the file cut where documents end."""
        ends = [np.array([layout.tokens - done])]
        if layout.row is not None:
            first = layout.row - done % layout.row
            ends.append(np.arange(first, len(ids) + 1, layout.row))
        if self._mark is not None:
            ends.append(np.flatnonzero(ids == self._mark) + 1)
        cuts = np.unique(np.concatenate(ends))
        begin = 0
        width = layout.dtype.itemsize
        for cut in cuts[cuts <= len(ids)].tolist():
            yield Chunk(ids[begin:cut], 0, (cut - begin) * width, done + cut)
            begin = cut
        if begin < len(ids):
            rest = ids[begin:]
            yield Chunk(rest, 0, len(rest) * width, done + len(ids), last=False)


def _check_range(ids: Array, path: Path, done: int) -> None:
    """Refuse ids that do not fit in 32 bits without a sign."""
    if ids.dtype.kind == "u" and ids.dtype.itemsize <= 4:
        return
    wrong = np.flatnonzero((ids < 0) | (ids >= 2**32))
    if len(wrong):
        at = int(wrong[0])
        raise DataError(f"{path}: id {ids[at]} at token {done + at} is not an id")


def _layout(file: FileState, dtype: str) -> _Layout:
    kind = ending(file.path)
    if file.path.suffix.lower() in PACKED_ENDINGS:
        raise DataError(
            f"{file.path} is packed; token files are read in place, unpack it"
        )
    try:
        if kind == ".npy":
            return _npy_layout(file)
        if kind == ".safetensors":
            return _safetensors_layout(file)
    except (ValueError, struct.error) as error:
        raise DataError(f"{file.path} is not a {kind} token file: {error}") from None
    element = np.dtype(dtype).newbyteorder("<")
    if file.size % element.itemsize:
        raise DataError(
            f"{file.path} has {file.size} bytes, not a multiple of the "
            f"{element.itemsize} of data.token_dtype {dtype}"
        )
    return _Layout(0, element, file.size // element.itemsize, None)


def _npy_layout(file: FileState) -> _Layout:
    with file.path.open("rb") as handle:
        start = handle.read(8)
        if start[:6] != _NPY or start[6:] not in _NPY_VERSIONS:
            raise ValueError("it does not begin as such a file does")
        size = struct.Struct(_NPY_VERSIONS[start[6:]])
        (length,) = size.unpack(handle.read(size.size))
        if length > _MAX_NPY_HEADER:
            raise ValueError("its header is too long")
        # NumPy itself evaluates the header, which is a Python expression.
        told = _NPY_HEADER.fullmatch(handle.read(length).decode("latin-1"))
        if told is None:
            raise ValueError("its header is not that of one plain array")
        shape = tuple(int(n) for n in re.findall("[0-9]+", told[3]))
        if told[2] == "True" and len(shape) > 1:
            raise ValueError("it is in Fortran order")
        return _shaped(file, handle.tell(), np.dtype(told[1]), shape)


def _safetensors_layout(file: FileState) -> _Layout:
    with file.path.open("rb") as handle:
        start = handle.read(tensor_header.LENGTH_BYTES)
        size = tensor_header.header_length(start, file.size)
        rest = file.size - len(start) - size
        entries, _ = tensor_header.decode(handle.read(size), rest)
    held = {entry.name: entry for entry in entries}
    names = [n for n in _NAMES if n in held] or list(held)
    if len(names) != 1 and names[:1] != ["tokens"]:
        told = ", ".join(held)[:200] or "nothing"
        raise ValueError(f"it holds {told}; expected one named tokens")
    entry = held[names[0]]
    kind = tensor_header.NAMES[entry.dtype]
    if kind not in _SAFETENSORS:
        raise ValueError(f"{names[0][:100]!r} is {kind}, expected integers")
    dtype = np.dtype("<" + _SAFETENSORS[kind])
    return _shaped(file, len(start) + size + entry.start, dtype, entry.shape)


def _shaped(
    file: FileState, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> _Layout:
    if dtype.kind not in "iu":
        raise ValueError(f"it holds {dtype}, expected integers")
    if len(shape) not in (1, 2):
        raise ValueError(f"it has {len(shape)} dimensions, expected 1 or 2")
    tokens = math.prod(shape)
    if min(offset, *shape) < 0 or offset + tokens * dtype.itemsize > file.size:
        raise ValueError(f"its header tells of {tokens} tokens, it ends before them")
    return _Layout(offset, dtype, tokens, shape[1] if len(shape) == 2 else None)
