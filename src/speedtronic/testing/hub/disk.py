"""A repository in a folder: what changes in one file, each commit in its own.

::

    FOLDER/repository.json      branches, tags, settings, large files
    FOLDER/commits/<id>.json    names and files of a commit
    FOLDER/blobs/<sha256>       contents

A commit is written before the branch that leads to it, and every file is renamed into
place, so a killed emulator starts again with what it had acknowledged.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import attrs

from speedtronic.testing.hub.values import Commit, File


@attrs.frozen
class LfsObject:
    """A large file in the storage."""

    size: int  # bytes
    pushed: float  # seconds since 1970
    released: float | None = None  # when it vanishes, once no commit holds it


@attrs.define
class Settings:
    """What changes in a repository."""

    private: bool
    created: float  # seconds since 1970
    gated: bool = False
    disabled: bool = False
    made: int = 0  # commits so far, so that no id comes twice
    branches: dict[str, str] = attrs.field(factory=dict)
    tags: dict[str, str] = attrs.field(factory=dict)
    lfs: dict[str, LfsObject] = attrs.field(factory=dict)


class Disk:
    """A repository's folder, or nothing at all if that is None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            (folder / "commits").mkdir(parents=True, exist_ok=True)

    def load(self) -> tuple[Settings, dict[str, Commit]] | None:
        """What an earlier emulator left, None if nothing."""
        if self._folder is None or not (self._folder / "repository.json").is_file():
            return None
        fields = json.loads((self._folder / "repository.json").read_text())
        lfs = {name: LfsObject(**held) for name, held in fields.pop("lfs").items()}
        commits = {}
        for path in (self._folder / "commits").glob("*.json"):
            commit = _commit(json.loads(path.read_text()))
            commits[commit.id] = commit
        return Settings(lfs=lfs, **fields), commits

    def save(self, settings: Settings) -> None:
        """Write what changes."""
        if self._folder is not None:
            _write(self._folder / "repository.json", attrs.asdict(settings))

    def save_commit(self, commit: Commit) -> None:
        """Write a commit."""
        if self._folder is not None:
            path = self._folder / "commits" / f"{commit.id}.json"
            _write(path, attrs.asdict(commit))

    def drop_commit(self, name: str) -> None:
        """Forget a commit."""
        if self._folder is not None:
            (self._folder / "commits" / f"{name}.json").unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder)


def _commit(fields: dict[str, Any]) -> Commit:
    files = {name: File(**file) for name, file in fields.pop("files").items()}
    return Commit(files=files, **fields)


def _write(path: Path, value: Any) -> None:
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(value))
    beside.replace(path)
