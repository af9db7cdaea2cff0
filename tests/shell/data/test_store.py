"""Token stores as they are opened."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speedtronic.errors import DataError
from speedtronic.shell.data.documents import TextFiles
from speedtronic.shell.data.prepare import prepare_store
from speedtronic.shell.data.source import TextSource
from speedtronic.shell.data.store import Store, read_about
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.tokenizers import ByteTokenizer

Text = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path, text: Text) -> Path:
    """A store of five tokens."""
    source = TextFiles([text(b"hello")], "hello.txt", TextRules())
    return prepare_store(TextSource(source, ByteTokenizer()), tmp_path / "cache").folder


def test_what_it_says_of_itself(folder: Path) -> None:
    """Counts, the highest id and where it is."""
    about = Store(folder).about

    assert ("hello.txt", "uint8", 5, 1, 5) == (
        about.source,
        about.dtype,
        about.tokens,
        about.documents,
        about.text_bytes,
    )
    assert (ord("o"), 4) == (about.max_id, about.max_id_at)
    assert {"tokens.bin", "documents.bin"} == set(about.sha256)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (b"{}", "is not a token store"),
        (b"{", "is not a token store"),
        (b"\xff", "is not a token store"),
        (b"[" * 100_000, "nested deeper than 64"),
    ],
)
def test_a_damaged_description(folder: Path, damage: bytes, told: str) -> None:
    """The file is named."""
    (folder / "store.json").write_bytes(damage)
    with pytest.raises(DataError, match=told):
        Store(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dtype", "object"),
        ("dtype", "V99"),
        ("tokens", 5.0),
        ("tokens", "5"),
        ("documents", -1),
        ("max_id", 2**32),
        ("sha256", {}),
        ("sha256", {"../x": "0" * 64}),
        ("sha256", 3),
        ("source", None),
        ("more", 1),
    ],
)
def test_a_description_of_another_form(folder: Path, field: str, value: Any) -> None:
    """Every field has its type and its range."""
    told = json.loads((folder / "store.json").read_text()) | {field: value}
    (folder / "store.json").write_text(json.dumps(told))
    with pytest.raises(DataError, match=f"is not a token store: .*{field}"):
        Store(folder)


def test_a_source_cannot_move_the_cursor(folder: Path) -> None:
    """It is shown at a terminal, which obeys some characters."""
    told = json.loads((folder / "store.json").read_text()) | {"source": "\x1b[2Ja"}
    (folder / "store.json").write_text(json.dumps(told))
    assert "?[2Ja" == Store(folder).about.source


def test_another_schema(folder: Path) -> None:
    """A store of a later version is not guessed at."""
    path = folder / "store.json"
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    with pytest.raises(DataError, match="has schema 2, expected 1"):
        read_about(folder)


def test_a_file_of_another_length(folder: Path) -> None:
    """Both lengths are told, and what to do."""
    with (folder / "tokens.bin").open("ab") as file:
        file.write(b"!")
    with pytest.raises(DataError, match="has 6 bytes, expected 5 by store.json"):
        Store(folder)


@pytest.mark.parametrize("name", ["tokens.bin", "documents.bin"])
def test_a_missing_or_empty_file(folder: Path, name: str) -> None:
    """It is named, with what to do."""
    (folder / name).write_bytes(b"")
    with pytest.raises(DataError, match=f"{name} has 0 bytes, expected"):
        Store(folder)
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"{name} cannot be read"):
        Store(folder)
