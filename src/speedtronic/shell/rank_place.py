"""The place of a process among those of its node, as the environment tells it.

``torchrun`` starts R processes and sets the same variables as other launchers do. R of
them are one node of a run (`speedtronic.shell.ranks`).
"""

from collections.abc import Mapping

import attrs

from speedtronic.errors import ConfigError

_OWN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_SHARED = ("MASTER_ADDR", "MASTER_PORT")


@attrs.frozen(kw_only=True)
class Place:
    """The place of a process among those of its node."""

    rank: int = 0
    ranks: int = 1
    local_rank: int = 0  # on this machine


def read_place(environ: Mapping[str, str]) -> Place:
    """The place that a launcher such as ``torchrun`` has given this process.

    Raises:
        ConfigError: one line for each variable that is missing or makes no sense.

    >>> read_place({})
    Place(rank=0, ranks=1, local_rank=0)
    >>> read_place({"RANK": "1"})
    Traceback (most recent call last):
    speedtronic.errors.ConfigError: WORLD_SIZE: not set, but RANK is; ...
    """
    given = [name for name in _OWN if name in environ]
    if not given:
        return Place()
    needed = _OWN if environ.get("WORLD_SIZE") == "1" else (*_OWN, *_SHARED)
    missing = [name for name in needed if name not in environ]
    if missing:
        raise ConfigError(
            [
                f"{name}: not set, but {given[0]} is; start with torchrun, which sets"
                f" all of {', '.join(needed)}, or unset {', '.join(given)}"
                for name in missing
            ]
        )
    numbers = {name: environ[name] for name in needed if name != "MASTER_ADDR"}
    told = [
        f"{name}: expected a whole number, found {text!r}; torchrun sets it"
        for name, text in numbers.items()
        if not text.isdecimal()
    ]
    if told:
        raise ConfigError(told)
    place = Place(
        rank=int(environ["RANK"]),
        ranks=int(environ["WORLD_SIZE"]),
        local_rank=int(environ["LOCAL_RANK"]),
    )
    if not place.rank < place.ranks:
        raise ConfigError(
            f"RANK: expected less than WORLD_SIZE {place.ranks}, found {place.rank}"
        )
    return place
