"""What a checkpoint folder must hold, so that any other byte is noticed.

``manifest.json`` lists every file with its size and sha256, says which run and step
they belong to, and carries the sum of its own content. It is written last.
"""

import hashlib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import CheckpointError, Corrupt, Damaged
from speedtronic.pure.retention import Kept
from speedtronic.pure.round import plain
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.atomic import Digest
from speedtronic.shell.regular import open_regular, read_limited

FILE = "manifest.json"
FOLDER = re.compile(r"step-([0-9]{8,15})")
_FORMAT = "speedtronic checkpoint"
_SCHEMA = 1
MAX_SIZE = 1 << 24  # bytes
_CHUNK = 1 << 20  # bytes
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", re.ASCII)


@attrs.frozen(kw_only=True)
class Manifest:
    """The content of ``manifest.json``."""

    run_id: str
    step: int
    finite: bool  # whether the weights are
    validation_loss: float | None
    files: dict[str, Digest]

    def kept(self) -> Kept:
        """What retention needs to know."""
        return Kept(self.step, self.finite, self.validation_loss)


def folder_name(step: int) -> str:
    """The folder that holds the checkpoint of a step.

    >>> folder_name(1234)
    'step-00001234'
    """
    return f"step-{step:08d}"


def encode(manifest: Manifest) -> bytes:
    """The bytes of ``manifest.json``; a loss that is not finite counts as none."""
    content = attrs.asdict(manifest) | {"format": _FORMAT, "schema": _SCHEMA}
    loss = manifest.validation_loss
    if loss is not None and not math.isfinite(loss):
        content["validation_loss"] = None
    return _text(content | {"sha256": _sum(content)})


def read(folder: Path) -> Manifest:
    """Read and check the manifest of a checkpoint.

    Raises:
        CheckpointError: there is no such folder, or another version wrote it.
        Damaged: the manifest is missing, changed, or of another step.
    """
    path = folder / FILE
    try:
        if not folder.is_dir():
            raise CheckpointError(f"{folder} is not a checkpoint: no such folder")
        data = read_limited(path, MAX_SIZE)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    try:
        content = from_json(data)
        if _text(content) != data or content.pop("sha256", "") != _sum(content):
            raise ValueError("its sum differs")
        schema = content.pop("schema", None)
        if (content.pop("format", None), schema) != (_FORMAT, _SCHEMA):
            raise CheckpointError(
                f"{path} is of schema {plain.shorten(schema)}, expected {_SCHEMA}; it"
                " takes another version of speedtronic to read it"
            )
        manifest = Manifest(**plain.record(content, FILE, _READERS))
    except (Corrupt, ValueError) as error:
        raise Damaged(f"{path} is not what was written: {error}") from None
    told = FOLDER.fullmatch(folder.name)
    if told and int(told[1]) != manifest.step:
        raise Damaged(f"{path} is of step {manifest.step}, not of {folder.name}")
    return manifest


def check_file(path: Path, digest: Digest) -> None:
    """Read a file and compare it with what it must be.

    Raises:
        Damaged: it is missing or has other bytes.
    """
    for _ in _checked(path, digest):
        pass


def read_text(path: Path, digest: Digest) -> bytes:
    """The content of a small file, after comparing it with what it must be.

    Raises:
        Damaged: it is missing or has other bytes.
    """
    return b"".join(_checked(path, digest))


def _checked(path: Path, digest: Digest) -> Iterator[bytes]:
    """The chunks of a file; it has been compared when the last one was taken."""
    sha256, size = hashlib.sha256(), 0
    try:
        with open_regular(path) as file:
            there = os.fstat(file.fileno()).st_size
            if there != digest.size:
                digest.expect(path, Digest("", there))
            while size <= digest.size and (chunk := file.read(_CHUNK)):
                sha256.update(chunk)
                size += len(chunk)
                yield chunk
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    digest.expect(path, Digest(sha256.hexdigest(), size))


def _files(value: Any, where: str) -> dict[str, Digest]:
    if not isinstance(value, dict) or not all(map(_NAME.fullmatch, value)):
        raise Corrupt(f"{where}: a file name leads elsewhere")
    return {name: _digest(told, f"{where}.{name}") for name, told in value.items()}


def _digest(value: Any, where: str) -> Digest:
    return Digest(**plain.record(value, where, _DIGEST))


def _text(content: dict[str, Any]) -> bytes:
    return f"{to_json(content)}\n".encode()


def _sum(content: dict[str, Any]) -> str:
    return hashlib.sha256(_text(content)).hexdigest()


_DIGEST: dict[str, plain.Reader[Any]] = {
    "sha256": plain.text(r"[0-9a-f]{64}", "64 lower-case hex digits"),
    "size": plain.integer(),
}
_READERS: dict[str, plain.Reader[Any]] = {
    "run_id": plain.words(100),
    "step": plain.integer(),
    "finite": plain.boolean,
    "validation_loss": plain.optional(plain.number),
    "files": _files,
}
