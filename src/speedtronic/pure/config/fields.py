"""Every field of the config in one flat list, by dotted path.

The reference page, the starter config, the command line's hints and the comparison
of two configs all read this list, so that a field is described in one place only.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from speedtronic.pure.config import Config, Source
from speedtronic.pure.config.base import Scope


@attrs.frozen(kw_only=True)
class Field:
    """One value that a config file may set."""

    path: str  # dotted, such as optimizer.lr
    type: Any
    default: Any
    help: str
    scope: Scope

    @property
    def section(self) -> str:
        """The path without the last name; empty at the root."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.path.rpartition(".")[2]


def fields_of(cls: Any, prefix: str = "") -> Iterator[Field]:
    """The fields of a config class and of the sections in it, in order.

    >>> next(fields_of(Config)).path
    'run.name'
    """
    for attribute in attrs.fields(cls):
        path = f"{prefix}{attribute.name}"
        if attrs.has(attribute.type):
            yield from fields_of(attribute.type, f"{path}.")
            continue
        make = getattr(attribute.default, "factory", None)
        yield Field(
            path=path,
            type=attribute.type,
            default=attribute.default if make is None else make(),
            help=attribute.metadata["help"],
            scope=attribute.metadata["scope"],
        )


FIELDS: dict[str, Field] = {field.path: field for field in fields_of(Config)}
SECTIONS: dict[str, Any] = {
    a.name: a.type
    for a in attrs.fields(Config)
    if a.type is not None and attrs.has(a.type)
}


def value_at(config: Config, path: str) -> Any:
    """The value that a config holds at a dotted path.

    >>> value_at(Config(), "optimizer.lr")
    0.0003
    """
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


def differences(one: Config, other: Config) -> dict[str, tuple[Any, Any]]:
    """Paths at which two configs differ, with both values, in the file's order.

    >>> differences(Config(), Config(ooo_streams=2))
    {'ooo_streams': (4, 2)}
    """
    pairs = ((p, value_at(one, p), value_at(other, p)) for p in FIELDS)
    return {path: (a, b) for path, a, b in pairs if a != b}


def shared(config: Config) -> dict[str, Any]:
    """What all nodes of a run must agree on, by dotted path, as plain JSON values.

    >>> shared(Config())["optimizer.lr"], "run.device" in shared(Config())
    (0.0003, False)
    """
    return {
        path: _shared(value_at(config, path))
        for path, field in FIELDS.items()
        if field.scope == "run"
    }


def not_shared(agreed: Mapping[str, Any]) -> list[str]:
    """Paths in what is said to be `shared` that are none, or each node's own.

    Whoever wrote them would decide where another machine reads and writes.

    >>> not_shared(shared(Config())), not_shared({"run.output_dir": "/", "lrr": 1})
    ([], ['lrr', 'run.output_dir'])
    >>> not_shared({"data.sources": [{"weight": 1.0, "path": "/etc"}]})
    ['data.sources[0].path']
    """
    own = [p for p in agreed if p not in FIELDS or FIELDS[p].scope != "run"]
    sources = agreed.get("data.sources", [])
    known = {f.path for f in fields_of(Source) if f.scope == "run"}
    for number, part in enumerate(sources if isinstance(sources, list) else [None]):
        names = part if isinstance(part, Mapping) else [""]
        own += [f"data.sources[{number}].{n}" for n in names if n not in known]
    return sorted(own)


def _shared(value: Any) -> Any:
    """Plain values; of sections in a list, the fields that belong to the run."""
    if attrs.has(type(value)):
        return {
            field.name: _shared(getattr(value, field.name))
            for field in attrs.fields(type(value))
            if field.metadata["scope"] == "run"
        }
    if isinstance(value, Mapping):
        return {str(key): _shared(item) for key, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [_shared(item) for item in value]
    return value
