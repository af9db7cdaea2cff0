"""What a checkpoint folder must hold, so that any other byte is noticed.

``manifest.json`` lists every file with its size and sha256, says which run and step
they belong to, and carries the sum of its own content. It is written last.
"""

import hashlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import CheckpointError, Damaged
from speedtronic.pure.retention import Kept
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.atomic import Digest

FILE = "manifest.json"
FOLDER = re.compile(r"step-(\d{8,})")
_FORMAT = "speedtronic checkpoint"
_SCHEMA = 1
_MAX_SIZE = 1 << 24  # bytes
_CHUNK = 1 << 20  # bytes
# What taking apart an arbitrary JSON value may raise.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


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
        with path.open("rb") as file:
            data = file.read(_MAX_SIZE)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    try:
        content = from_json(data)
        if _text(content) != data or content.pop("sha256") != _sum(content):
            raise ValueError("its sum differs")
        if (content["format"], content["schema"]) != (_FORMAT, _SCHEMA):
            raise CheckpointError(
                f"{path} is of schema {content['schema']!r}, expected {_SCHEMA}; it"
                " takes another version of speedtronic to read it"
            )
        manifest = _structure(content)
    except _MALFORMED as error:
        raise Damaged(f"{path} is not what was written: {error}") from error
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
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                sha256.update(chunk)
                size += len(chunk)
                yield chunk
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    digest.expect(path, Digest(sha256.hexdigest(), size))


def _structure(content: dict[str, Any]) -> Manifest:
    files = {
        name: Digest(str(told["sha256"]), int(told["size"]))
        for name, told in content["files"].items()
    }
    if any(not _NAME.fullmatch(name) for name in files):
        raise ValueError("a file name leads elsewhere")
    loss = content["validation_loss"]
    return Manifest(
        run_id=str(content["run_id"]),
        step=int(content["step"]),
        finite=bool(content["finite"]),
        validation_loss=None if loss is None else float(loss),
        files=files,
    )


def _text(content: dict[str, Any]) -> bytes:
    return f"{to_json(content)}\n".encode()


def _sum(content: dict[str, Any]) -> str:
    return hashlib.sha256(_text(content)).hexdigest()
