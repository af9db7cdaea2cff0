"""What the config names as data: files found, formats told apart.

A source is files (text, JSON lines or tokens) or a dataset. Files come from a path, a
glob or a folder, always in sorted order; hidden files are skipped.
"""

import glob
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import attrs

from speedtronic.errors import DataError
from speedtronic.shell.data.text import (
    Count,
    Piece,
    TextRules,
    json_pieces,
    text_pieces,
)

JSON_ENDINGS = (".jsonl", ".ndjson")
TOKEN_ENDINGS = (".bin", ".npy", ".safetensors")
PACKED_ENDINGS = (".gz", ".zst")


class Documents(Protocol):
    """A source of text: parts (files, or one dataset) that hold documents."""

    name: str
    masked: bool  # whether some text is read but not learned

    def identity(self) -> Any:
        """What changes when the source does, as JSON values."""
        ...

    def parts(self) -> int:
        """Number of parts."""
        ...

    def pieces(self, part: int, start: int, replaced: Count) -> Iterator[Piece]:
        """The documents of a part, from a place on."""
        ...

    def size(self) -> int:
        """About how many bytes of text there are, for a progress bar."""
        ...

    def check(self) -> None:
        """Raise DataError if the source changed since it was looked at first."""
        ...


@attrs.frozen
class FileState:
    """What a file looked like."""

    path: Path
    size: int
    modified_ns: int


class TextFiles:
    """Text and JSON-lines files, one part each.

    Raises:
        DataError: a file is missing or empty.
    """

    def __init__(self, paths: list[Path], rules: TextRules, name: str) -> None:
        self.name = name
        self.masked = rules.masked
        self._rules = rules
        self._files = [look(path) for path in paths]
        if not any(file.size for file in self._files):
            raise DataError(f"{name} is empty (0 bytes)")

    def identity(self) -> Any:
        """Names, sizes and times of the files, and the rules."""
        files = [[str(f.path), f.size, f.modified_ns] for f in self._files]
        return ["text", files, attrs.asdict(self._rules)]

    def parts(self) -> int:
        """Number of files."""
        return len(self._files)

    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self._files)

    def pieces(self, part: int, start: int, replaced: Count) -> Iterator[Piece]:
        """The documents of one file."""
        path = self._files[part].path
        read = json_pieces if is_json(path) else text_pieces
        return read(path, self._rules, start, replaced)

    def check(self) -> None:
        """Compare every file with what it was."""
        for before in self._files:
            now = look(before.path)
            if now != before:
                raise DataError(
                    f"{before.path} changed while it was read: "
                    f"{before.size} bytes before, {now.size} now; start again"
                )


def find_files(spec: str) -> list[Path]:
    """The files that a path, a glob or a folder names.

    Raises:
        DataError: there are none.
    """
    path = Path(spec).expanduser()
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.is_file() and _shown(p, path))
        if not found:
            raise DataError(f"the folder {path} holds no files")
        return found
    if path.exists():
        return [path]
    if glob.has_magic(spec):
        names = glob.glob(os.path.expanduser(spec), recursive=True)
        found = sorted(Path(name) for name in names if Path(name).is_file())
        if found:
            return found
        raise DataError(f"no file matches {spec!r} (from {Path.cwd()})")
    raise DataError(f"{path} does not exist (from {Path.cwd()})")


def ending(path: Path) -> str:
    """The ending that tells the format: ``.gz`` and ``.zst`` are looked through.

    >>> ending(Path("a/b.jsonl.gz"))
    '.jsonl'
    """
    bare = path.with_suffix("") if path.suffix in PACKED_ENDINGS else path
    return bare.suffix.lower()


def is_json(path: Path) -> bool:
    """Whether a file holds JSON lines."""
    return ending(path) in JSON_ENDINGS


def look(path: Path) -> FileState:
    """Size and time of a file."""
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    return FileState(path.resolve(), status.st_size, status.st_mtime_ns)


def key_of(value: Any) -> str:
    """A short name for a JSON value.

    >>> len(key_of(["a", 1]))
    16
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _shown(path: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)
