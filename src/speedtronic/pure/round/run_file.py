"""``run.json``: what another machine needs to take part in a run.

The recipe is what all nodes agree on; its hash is the lineage. Beside it stands what a
node may do otherwise, and what only helps it to begin: who wrote the file, how the
first node is set, where the token stores of the data belong. Nothing of that is part of
the lineage. Like a manifest the file vouches for itself with its own hash.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain
from speedtronic.pure.round.header import hash_text

SCHEMA = 1
MAX_RUN_BYTES = 2**20
MAX_STORES = 256

Recipe = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class StoreAt:
    """A token store, and the field of a config that names it."""

    field: str  # dotted, such as data.store or data.sources[0].path
    fingerprint: str
    tokens: int
    bytes: int  # of its files


@attrs.frozen(kw_only=True, eq=False)
class RunFile:
    """The content of ``run.json``."""

    version: str  # of the program that wrote it
    recipe: Recipe
    settings: Mapping[str, Any]  # of the node that began the run, by dotted path
    init_from: str | None  # where that node had its first weights from
    stores: tuple[StoreAt, ...]

    @property
    def lineage(self) -> str:
        """The hash that stands in every header and manifest of the run."""
        return plain.digest(dict(self.recipe))


def encode(run: RunFile) -> bytes:
    """The file.

    >>> run = RunFile(
    ...     version="3.0", recipe={"config": {}}, settings={}, init_from=None, stores=()
    ... )
    >>> parse(encode(run)).version
    '3.0'
    """
    value = {
        "schema": SCHEMA,
        "version": run.version,
        "recipe": dict(run.recipe),
        "settings": dict(run.settings),
        "init_from": run.init_from,
        "stores": [attrs.asdict(store) for store in run.stores],
    }
    return plain.encode({**value, "id": plain.digest(value)})


def parse(data: bytes, what: str = "run.json") -> RunFile:
    """Read a file that anybody may have written.

    Raises:
        Corrupt: it is none, or not what was written.

    >>> parse(b"{}")
    Traceback (most recent call last):
    speedtronic.errors.Corrupt: run.json: missing key 'schema'; ...
    """
    value = plain.decode(data, what, MAX_RUN_BYTES)
    if isinstance(value, dict) and value.get("schema", SCHEMA) != SCHEMA:
        found = plain.shorten(value["schema"])
        raise Corrupt(
            f"{what}.schema: expected {SCHEMA}, found {found}; it was written by "
            "another version of speedtronic"
        )
    found = plain.record(value, what, _RUN)
    told, _ = found.pop("id"), found.pop("schema")
    held = {key: item for key, item in value.items() if key != "id"}
    if plain.digest(held) != told:
        raise Corrupt(f"{what}: expected the content of {told}")
    return RunFile(**found)


def _fields(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Corrupt(f"{where}: expected an object, found {plain.shorten(value)}")
    return value


def _recipe(value: Any, where: str) -> dict[str, Any]:
    recipe = _fields(value, where)
    _fields(recipe.get("config"), f"{where}.config")
    return recipe


def _store(value: Any, where: str) -> StoreAt:
    return StoreAt(**plain.record(value, where, _STORE))


_STORE: dict[str, plain.Reader[Any]] = {
    "field": plain.text(
        r"data\.(store|validation_path|sources\[[0-9]{1,3}\]\.path)",
        "a field that names a token store",
    ),
    "fingerprint": hash_text,
    "tokens": plain.integer(),
    "bytes": plain.integer(),
}

_RUN: dict[str, plain.Reader[Any]] = {
    "schema": plain.integer(),
    "id": hash_text,
    "version": plain.text(r"[0-9A-Za-z.+-]{1,40}", "a version"),
    "recipe": _recipe,
    "settings": _fields,
    "init_from": plain.optional(plain.words(1000)),
    "stores": plain.array(_store, MAX_STORES),
}
