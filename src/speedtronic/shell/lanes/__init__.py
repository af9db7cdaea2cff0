"""Lanes: named blobs in revisions, all that the nodes of a run share."""

from pathlib import Path
from typing import TYPE_CHECKING

from speedtronic.errors import ConfigError
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.lanes.directory import DirectoryLane
from speedtronic.shell.lanes.memory import MemoryLane

if TYPE_CHECKING:
    from speedtronic.shell.lanes.hub.options import HubOptions

_FORMS = "dir:PATH, hub:OWNER/NAME or memory:"


def parse_lane(
    text: str, *, create: bool = False, hub: "HubOptions | None" = None
) -> Lane:
    """Open the lane that a config or a command line names.

    Args:
        text: ``dir:PATH`` for a folder, ``hub:OWNER/NAME`` for a model repository,
            ``memory:`` for a new lane in this process.
        create: make the lane's folder or repository if there is none, and find out
            whether the repository will do. Without it a missing folder is an outage,
            so that a disk that is not mounted never looks like a new run, and nothing
            is asked of the Hub yet.
        hub: token, cache and limits of a lane on the Hub.

    Raises:
        ConfigError: the text names no lane, or the repository will not do.
        Unavailable, Denied: see `DirectoryLane`; the Hub does not answer.

    >>> parse_lane("memory:").head()
    >>> parse_lane("dri:/data")
    Traceback (most recent call last):
    speedtronic.errors.ConfigError: lane 'dri:/data': expected dir:PATH, hub:OWNER/NAME
    or memory:
    """
    kind, colon, rest = text.partition(":")
    if colon and kind == "dir" and rest.strip():
        root = Path(rest).expanduser()
        return DirectoryLane.create(root) if create else DirectoryLane(root)
    if colon and kind == "hub" and rest.strip():
        return _hub(rest, create, hub)
    if colon and kind == "memory" and not rest:
        return MemoryLane()
    raise ConfigError(f"lane {text!r}: expected {_FORMS}")


def _hub(repository: str, create: bool, options: "HubOptions | None") -> Lane:
    # The client takes a third of a second to import, which only its users should pay.
    from speedtronic.shell.lanes.hub.lane import HubLane
    from speedtronic.shell.lanes.hub.options import repository_problem
    from speedtronic.shell.lanes.hub.preflight import check, refuse

    problem = repository_problem(repository)
    if problem:
        raise ConfigError(f"lane {f'hub:{repository}'!r}: {problem}")
    if create:
        refuse(check(repository, options, create=True))
    return HubLane(repository, options)
