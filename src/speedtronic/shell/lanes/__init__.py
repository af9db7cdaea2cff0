"""Lanes: named blobs in revisions, all that the nodes of a run share."""

from collections.abc import Callable
from pathlib import Path

from speedtronic.errors import ConfigError
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.lanes.directory import DirectoryLane
from speedtronic.shell.lanes.memory import MemoryLane

_FORMS = "dir:PATH or memory:"


def parse_lane(text: str, *, create: bool = False) -> Lane:
    """Open the lane that a config or a command line names.

    Args:
        text: ``dir:PATH`` for a folder, ``memory:`` for a new lane in this process.
        create: make the folder's lane if there is none. Without it a missing lane is
            an outage, so that a disk that is not mounted never looks like a new run.

    Raises:
        ConfigError: the text names no lane.
        Unavailable, Denied: see `DirectoryLane`.

    >>> parse_lane("memory:").head()
    >>> parse_lane("dri:/data")
    Traceback (most recent call last):
    speedtronic.errors.ConfigError: lane 'dri:/data': expected dir:PATH or memory:
    """
    kind, _, rest = text.partition(":")
    opened = _OPENERS[kind](rest, create) if ":" in text and kind in _OPENERS else None
    if opened is None:
        raise ConfigError(f"lane {text!r}: expected {_FORMS}")
    return opened


def _directory(path: str, create: bool) -> Lane | None:
    if not path.strip():
        return None
    root = Path(path).expanduser()
    return DirectoryLane.create(root) if create else DirectoryLane(root)


def _memory(name: str, create: bool) -> Lane | None:
    return None if name else MemoryLane()


_OPENERS: dict[str, Callable[[str, bool], Lane | None]] = {
    "dir": _directory,
    "memory": _memory,
}
