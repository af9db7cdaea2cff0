"""The modes of all files and folders that are made here.

Nobody but their owner may write to them, whatever the umask of the process allows; a
stricter umask still takes away. What holds a secret is for its owner alone. Nothing in
the shell makes a file or a folder in another way than by these functions, or by
`speedtronic.shell.atomic`, which uses them; a test holds all sources to that.
"""

import os
from pathlib import Path
from typing import BinaryIO, Literal, TextIO, cast

FILE = 0o644
FOLDER = 0o755
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def make_folder(path: Path, mode: int = FOLDER) -> None:
    """Make a folder with its parents; one that is there keeps its mode.

    Raises:
        OSError: it cannot be made.
    """
    missing = [path]  # also if it is there: it may be a file
    for folder in path.parents:
        if folder.exists():
            break
        missing.append(folder)
    for folder in reversed(missing):
        folder.mkdir(mode, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file; one that is there stays as it is.

    Raises:
        OSError: it cannot be made.
    """
    os.close(opener(str(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))


def opener(path: str, flags: int) -> int:
    """Open a file that may be made: for `open`, and where there is a descriptor."""
    return os.open(path, flags, FILE)


def open_bytes(
    path: Path, mode: Literal["ab", "wb", "w+b", "r+b"], buffering: int = -1
) -> BinaryIO:
    """Open a file for writing bytes.

    Raises:
        OSError: it cannot be opened.
    """
    return open(path, mode, buffering, opener=opener)


def open_text(path: Path, mode: Literal["a", "w", "x"]) -> TextIO:
    """Open a file for writing text in UTF-8.

    Raises:
        OSError: it cannot be opened.
    """
    return cast(TextIO, open(path, mode, encoding="utf-8", opener=opener))
