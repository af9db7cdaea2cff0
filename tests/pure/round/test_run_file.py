"""The run file: canonical, strict, and it vouches for itself."""

import json
from typing import Any

import attrs
import pytest

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain
from speedtronic.pure.round.run_file import RunFile, StoreAt, encode, parse

STORE = StoreAt(field="data.store", fingerprint="ab" * 32, tokens=9, bytes=18)
RUN = RunFile(
    version="3.0.0.dev0",
    recipe={"config": {"optimizer.lr": 0.1}, "data": "x"},
    settings={"run.max_steps": 5},
    init_from="me/model@main",
    stores=(STORE, attrs.evolve(STORE, field="data.sources[12].path")),
)


def altered(**changes: Any) -> bytes:
    """The file with other fields, whose own hash is right."""
    value = {**json.loads(encode(RUN)), **changes}
    del value["id"]
    return plain.encode({**value, "id": plain.digest(value)})


def test_a_run_file_survives_the_lane() -> None:
    """What is written is read."""
    assert attrs.asdict(RUN) == attrs.asdict(parse(encode(RUN)))


def test_only_the_recipe_is_the_lineage() -> None:
    """Where the tokens lie, who wrote it and with which settings is not."""
    other = attrs.evolve(RUN, version="3.1", settings={}, init_from=None, stores=())

    assert plain.digest(dict(RUN.recipe)) == RUN.lineage == other.lineage
    assert RUN.lineage != attrs.evolve(RUN, recipe={"config": {}}).lineage


@pytest.mark.parametrize("flipped", [b"0.1", b"max_steps", b"abab", b"me/model"])
def test_a_change_on_the_way_is_noticed(flipped: bytes) -> None:
    """Of the recipe, the settings, a store or the weights."""
    data = encode(RUN)
    spoilt = data.replace(flipped, flipped[:-1] + bytes([flipped[-1] ^ 1]))

    assert data != spoilt
    with pytest.raises(Corrupt):
        parse(spoilt)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schema": 2}, "run.json.schema: expected 1, found 2; it was written by"),
        ({"recipe": {}}, "run.json.recipe.config: expected an object, found None"),
        ({"recipe": 5}, "run.json.recipe: expected an object, found 5"),
        ({"version": "a b"}, "run.json.version: expected a version"),
        ({"more": 1}, "unknown key 'more'"),
        ({"stores": [{"field": "run.name"}]}, "run.json.stores"),
        (
            {"stores": [attrs.asdict(attrs.evolve(STORE, field="logging.file"))]},
            "a field that names a token store",
        ),
    ],
    ids=["schema", "config", "recipe", "version", "more", "store", "field"],
)
def test_what_is_no_run_file_is_refused(changes: dict[str, Any], told: str) -> None:
    """Though its hash is right."""
    with pytest.raises(Corrupt) as caught:
        parse(altered(**changes))
    assert told in str(caught.value)
