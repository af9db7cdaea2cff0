"""What changed in the config between a run and its continuation.

What the run computes (scope ``run``) may not change: the continuation would be the
middle of no run at all. What belongs to a machine (``node``) or to the telling
(``free``) may, and is said. A changed learning rate is therefore refused by name and
never dropped or mixed in. Nor may the folder of the checkpoints change, or none would
be found there.
"""

from collections.abc import Iterator
from typing import Any

import attrs

from speedtronic.pure.config import Config, Secret
from speedtronic.pure.config.base import Scope
from speedtronic.pure.config.fields import FIELDS, differences

_HORIZONS = ("run.max_steps", "run.max_minutes")
_PLACE = "checkpoint.directory"


@attrs.frozen
class Change:
    """One field that differs."""

    path: str  # dotted, such as optimizer.lr
    old: Any
    new: Any
    scope: Scope
    note: str = ""  # what follows from it, if that is not plain

    def __str__(self) -> str:
        told = f"{self.path}: {self.old!r} -> {self.new!r}"
        return f"{told} ({self.note})" if self.note else told


@attrs.frozen
class Comparison:
    """The changes that a continued run may make, and those that it may not."""

    allowed: tuple[Change, ...]
    refused: tuple[Change, ...]


def compare(old: Config, new: Config) -> Comparison:
    """Sort the differences between a run's config and that of its continuation.

    Secrets and ``checkpoint.resume`` are not looked at: the first are nobody's
    business, the second is how a continuation is asked for.

    >>> new = Config(ooo_streams=2, optimizer=attrs.evolve(Config().optimizer, lr=1.0))
    >>> told = compare(Config(), new)
    >>> [str(change) for change in told.allowed]
    ['ooo_streams: 4 -> 2']
    >>> [str(change) for change in told.refused]
    ['optimizer.lr: 0.0003 -> 1.0']
    """
    changes = [c for c in _changes(old, new) if c.path != "checkpoint.resume"]
    refused = [c for c in changes if c.scope == "run" or c.path == _PLACE]
    return Comparison(
        allowed=tuple(c for c in changes if c not in refused),
        refused=tuple(refused),
    )


def _changes(old: Config, new: Config) -> Iterator[Change]:
    for path, (before, after) in differences(old, new).items():
        if isinstance(before, Secret) or isinstance(after, Secret):
            continue
        if _same_length_sections(before, after):
            for index, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from _inside(f"{path}[{index}]", one, other)
            continue
        yield Change(path, before, after, FIELDS[path].scope, _note(path, new))


def _note(path: str, new: Config) -> str:
    scheduled = new.scheduler.name != "constant" and new.scheduler.max_steps is None
    if path in _HORIZONS and scheduled:
        return "the learning rate schedule ends there, too"
    return "that is where the run's checkpoints are" if path == _PLACE else ""


def _same_length_sections(one: Any, other: Any) -> bool:
    """Whether both are the same number of config values, such as data sources."""
    both = isinstance(one, tuple) and isinstance(other, tuple)
    return both and len(one) == len(other) and all(map(attrs.has, map(type, one)))


def _inside(path: str, one: Any, other: Any) -> Iterator[Change]:
    for field in attrs.fields(type(one)):
        before, after = getattr(one, field.name), getattr(other, field.name)
        if before != after:
            scope = field.metadata["scope"]
            yield Change(f"{path}.{field.name}", before, after, scope)
