"""Files that hold data: found by path, glob or folder, and told apart by ending."""

import glob
import os
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import DataError

JSON_ENDINGS = (".jsonl", ".ndjson")
TOKEN_ENDINGS = (".bin", ".npy", ".safetensors")
PACKED_ENDINGS = (".gz", ".zst")


@attrs.frozen
class FileState:
    """What a file looked like."""

    path: Path
    size: int
    modified_ns: int

    def identity(self) -> Any:
        """Path, size and time as JSON values."""
        return [str(self.path), self.size, self.modified_ns]


def look(path: Path) -> FileState:
    """Size and time of a file.

    Raises:
        DataError: it is missing, is a folder, or may not be looked at.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    return FileState(path.resolve(), status.st_size, status.st_mtime_ns)


def check_unchanged(files: list[FileState]) -> None:
    """Raise DataError if a file is not what it was."""
    for before in files:
        now = look(before.path)
        if now != before:
            raise DataError(
                f"{before.path} changed while it was read: "
                f"{before.size} bytes before, {now.size} now; start again"
            )


def find_files(spec: str) -> list[Path]:
    """The files that a path, a glob or a folder names, sorted; hidden ones left out.

    Raises:
        DataError: there are none.
    """
    path = Path(spec).expanduser()
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if _is_file(p) and _shown(p, path))
        if not found:
            raise DataError(f"the folder {path} holds no files")
        return found
    if path.exists():
        return [path]
    if glob.has_magic(spec):
        names = glob.glob(os.path.expanduser(spec), recursive=True)
        found = sorted(Path(name) for name in names if _is_file(Path(name)))
        if found:
            return found
        raise DataError(f"no file matches {spec!r} (from {Path.cwd()})")
    raise DataError(f"{path} does not exist (from {Path.cwd()})")


def ending(path: Path) -> str:
    """The ending that tells the format: ``.gz`` and ``.zst`` are looked through.

    >>> ending(Path("a/b.jsonl.gz"))
    '.jsonl'
    """
    bare = path.with_suffix("") if path.suffix.lower() in PACKED_ENDINGS else path
    return bare.suffix.lower()


def kind_of(path: Path) -> str:
    """The format of a file, by its ending: text, jsonl or tokens.

    >>> kind_of(Path("a.txt")), kind_of(Path("a.jsonl.zst")), kind_of(Path("a.npy"))
    ('text', 'jsonl', 'tokens')
    """
    if ending(path) in JSON_ENDINGS:
        return "jsonl"
    return "tokens" if ending(path) in TOKEN_ENDINGS else "text"


def _is_file(path: Path) -> bool:
    """A file, or a link to nothing, which is not passed over but told."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _shown(path: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)
