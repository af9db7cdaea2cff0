"""What of a run's data can travel to another machine, and how that machine names it.

Token stores can: the tokens of a text, a token file, a folder of either. A dataset that
a config names, of the Hub or by a factory, stays what it is: each machine asks its own
source for it. Made-up tokens need nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from speedtronic.pure.config import Config, Data
from speedtronic.pure.round.run_file import StoreAt
from speedtronic.shell.data.pipeline import prepare_all
from speedtronic.shell.data.recipe import Ingredient, ingredients
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.tokenizers import build_tokenizer

HELD_OUT = "data.validation_path"


def stores_by_field(config: Config, directory: Path) -> dict[str, Store]:
    """The token stores that can travel, by the field that another config names them in.

    Args:
        config: of a run whose data was opened before, so that its stores are there.
        directory: where token stores are kept, as for `open_data`.

    Raises:
        DataError: the data cannot be used.
    """
    if not any(_paths(config.data)):
        return {}
    tokenizer = build_tokenizer(config.data)
    found = ingredients(config.data, tokenizer)
    if any(part.samples is not None for part in found):
        return {}
    prepared = prepare_all(config, found, tokenizer, directory).stores
    fields = list(_fields(config.data, found))
    return {f: s for f, s in zip(fields, prepared, strict=False) if f is not None}


def described(stores: Mapping[str, Store]) -> tuple[StoreAt, ...]:
    """What is published of stores."""
    return tuple(
        StoreAt(
            field=field,
            fingerprint=store.about.fingerprint,
            tokens=store.about.tokens,
            bytes=sum((store.folder / name).stat().st_size for name in store.files),
        )
        for field, store in stores.items()
    )


def with_stores(
    raw: Mapping[str, Any], lane: str, stores: Sequence[StoreAt]
) -> tuple[dict[str, Any], tuple[StoreAt, ...]]:
    """Plain values of a config whose sources are token stores on a lane.

    Args:
        raw: plain values in full form; a source that they name is kept.
        lane: what the config calls the lane.
        stores: of the run.

    Returns:
        The values, and the stores that they name now.

    >>> at = StoreAt(field="data.store", fingerprint="ab" * 32, tokens=1, bytes=1)
    >>> raw, used = with_stores({"data": {}}, "hub:me/run", [at])
    >>> raw["data"]["store"][:15], len(used)
    ('hub:me/run@abab', 1)
    >>> with_stores({"data": {"text_path": "a.txt"}}, "hub:me/run", [at])[1]
    ()
    """
    data = dict(raw.get("data") or {})
    data["sources"] = [dict(part) for part in data.get("sources") or []]
    used = []
    for store in stores:
        section, names = _place(data, store.field)
        if section is not None and not any(map(section.get, names)):
            section[names[0]] = f"{lane}@{store.fingerprint}"
            used.append(store)
    return {**raw, "data": data}, tuple(used)


def _place(data: dict[str, Any], field: str) -> tuple[Any, tuple[str, ...]]:
    """The section that a field belongs to; its name there, and those it excludes."""
    if field == HELD_OUT:
        return data, ("validation_path",)
    if field == "data.store":
        return data, ("store", "text_path", "dataset")
    number = int(field.partition("[")[2].partition("]")[0])
    sources = data["sources"]
    return sources[number] if number < len(sources) else None, ("path", "dataset")


def _paths(data: Data) -> list[str]:
    """What the config names that may be, or become, a token store."""
    named = [data.text_path, data.store, *(part.path for part in data.sources)]
    return [path for path in named if path is not None]


def _fields(data: Data, found: Sequence[Ingredient]) -> Iterator[str | None]:
    """A field for each store that `prepare_all` makes, None where there is none.

    Beside one source a store for validation can be named; beside several, one that
    came with a source cannot, and then that source does not travel.
    """
    alone = not data.sources
    for number, part in enumerate(found):
        travels = alone or data.sources[number].path is not None
        apart = part.validation is not None and data.validation_path is None
        if not travels or (apart and not alone):
            yield None
        else:
            yield "data.store" if alone else f"data.sources[{number}].path"
    if alone or data.validation_path is not None:
        yield HELD_OUT
