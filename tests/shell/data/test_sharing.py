"""What of a config's data can travel, and how the other config names it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speedtronic.pure.config import Config
from speedtronic.pure.round.run_file import StoreAt
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.data import open_data
from speedtronic.shell.data.sharing import described, stores_by_field, with_stores
from speedtronic.shell.data.travel import push_store
from speedtronic.shell.lanes import parse_lane

Text = Callable[..., Path]
FACTORIES = "tests.shell.data.factories"
LINES = "one line of a text, and another one\n" * 9


@pytest.fixture
def named(tmp_path: Path, text: Text) -> Callable[..., Config]:
    """A config with these fields of the data section; its data was opened."""

    def make(**fields: Any) -> Config:
        data = {"block_size": 4, **fields}
        config = config_from_dict({"data": data})
        open_data(config, directory=tmp_path / "here").close()
        return config

    text(LINES, "a.txt")
    text("held out, " * 9, "b.txt")
    text('{"question": "why?", "answer": "because of it all"}\n' * 9, "c.jsonl")
    return make


def elsewhere(config: Config, tmp_path: Path) -> tuple[Config, list[str]]:
    """The config of a machine without the files, and the fields it had to change."""
    stores = stores_by_field(config, tmp_path / "here")
    lane = f"dir:{tmp_path / 'lane'}"
    for store in stores.values():
        push_store(parse_lane(lane, create=True), store)
    fields = {
        name: getattr(config.data, name)
        for name in ("block_size", "prompt_field", "completion_field", "format")
    }
    sources = [{"dataset": s.dataset, "weight": s.weight} for s in config.data.sources]
    raw = {"data": {**fields, "dataset": config.data.dataset, "sources": sources}}
    raw, used = with_stores(raw, lane, described(stores))
    return config_from_dict(raw), [store.field for store in used]


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({"text_path": "a.txt"}, ["data.store"]),
        (
            {"text_path": "a.txt", "validation_path": "b.txt"},
            ["data.store", "data.validation_path"],
        ),
        (
            {
                "text_path": "c.jsonl",
                "prompt_field": "question",
                "completion_field": "answer",
                "format": "jsonl",
            },
            ["data.store"],
        ),
        (
            {
                "sources": [{"path": "a.txt", "weight": 2.0}, {"path": "c.jsonl"}],
                "prompt_field": "question",
                "completion_field": "answer",
            },
            ["data.sources[0].path", "data.sources[1].path"],
        ),
        (
            {
                "sources": [{"path": "a.txt"}, {"dataset": f"{FACTORIES}:texts"}],
                "validation_path": "b.txt",
            },
            ["data.sources[0].path", "data.validation_path"],
        ),
        ({"dataset": f"{FACTORIES}:texts"}, []),
        ({"dataset": f"{FACTORIES}:squares_and_more"}, []),
        ({}, []),
    ],
    ids=["text", "held-out", "prompts", "mixture", "mixed", "texts", "samples", "none"],
)
def test_another_machine_has_the_same_data(
    named: Callable[..., Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    changed: list[str],
) -> None:
    """With the same fingerprint, from the stores or from its own source."""
    monkeypatch.chdir(tmp_path)
    config = named(**fields)
    here = open_data(config, directory=tmp_path / "here")
    other, named_fields = elsewhere(config, tmp_path)
    for path in tmp_path.glob("*.*"):
        path.unlink()
    there = open_data(other, directory=tmp_path / "there")

    assert changed == named_fields
    assert here.fingerprint == there.fingerprint
    expected, found = (d.train_batch(3).micro_batches[0] for d in (here, there))
    assert str(expected) == str(found)


def test_what_a_user_names_is_kept(tmp_path: Path) -> None:
    """Whatever the run has on its lane."""
    raw = {"data": {"dataset": "mine", "sources": [{"dataset": "x"}]}}
    at = [
        *(f"data.{name}" for name in ("store", "validation_path")),
        *(f"data.sources[{number}].path" for number in range(2)),
    ]
    changed, used = with_stores(
        raw,
        "dir:lane",
        [StoreAt(field=f, fingerprint="ab" * 32, tokens=1, bytes=1) for f in at],
    )
    assert ["data.validation_path"] == [store.field for store in used]
    assert raw["data"]["sources"] == changed["data"]["sources"]
    assert f"dir:lane@{'ab' * 32}" == changed["data"]["validation_path"]


def test_a_description_counts_tokens_and_bytes(
    named: Callable[..., Config], tmp_path: Path
) -> None:
    """So that whoever joins knows what it will fetch."""
    config = named(text_path=str(tmp_path / "a.txt"))
    stores = stores_by_field(config, tmp_path / "here")
    (told,) = described(stores)
    (store,) = stores.values()

    assert len(LINES) == told.tokens
    assert store.about.fingerprint == told.fingerprint
    files = [p for p in store.folder.iterdir() if p.name != "store.json"]
    assert sum(p.stat().st_size for p in files) == told.bytes
