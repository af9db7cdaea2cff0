"""Sources of text."""

from collections.abc import Callable
from pathlib import Path

import pytest

from speedtronic.errors import DataError
from speedtronic.shell.data import documents
from speedtronic.shell.data.documents import Documents, TextFiles, TextRecords
from speedtronic.shell.data.text import TextRules

Text = Callable[..., Path]


def texts(source: Documents) -> list[bytes]:
    """All pieces of all parts."""
    parts = range(source.parts())
    return [piece.text for part in parts for piece in source.pieces(part, 0)]


def test_files_by_their_endings(text: Text) -> None:
    """Text and JSON lines may be mixed; each file is a part."""
    paths = [text(b"plain", "a.txt"), text(b'{"text": "json"}\n', "b.jsonl")]
    files = TextFiles(paths, "both", TextRules())

    assert [b"plain", b"json"] == texts(files)
    assert (2, 22) == (files.parts(), files.size())


def test_a_format_overrides_the_ending(text: Text) -> None:
    """JSON lines in a file of another name."""
    path = text(b'{"text": "json"}\n', "a.data")

    assert [b"json"] == texts(TextFiles([path], "a", TextRules(), "jsonl"))


def test_one_empty_file_among_others(text: Text) -> None:
    """It holds no document, and that is no error."""
    paths = [text(b"", "a.txt"), text(b"x", "b.txt")]

    assert [b"x"] == texts(TextFiles(paths, "both", TextRules()))


def test_rules_are_part_of_the_identity(text: Text) -> None:
    """Another separator makes other documents of the same file."""
    path = text(b"x")
    one, other = (
        TextFiles([path], "a", TextRules(separator=s)).identity() for s in (None, "|")
    )

    assert one != other


def test_records_and_texts() -> None:
    """Text as it is, or in a field; empty texts are skipped."""
    records = ["a", {"text": "b"}, "", {"text": ""}, "c"]
    held = TextRecords(records, "records", TextRules())
    pieces = list(held.pieces(0, 0))

    assert [b"a", b"b", b"c"] == [piece.text for piece in pieces]
    assert pieces[1:] == list(held.pieces(0, pieces[0].place))


def test_the_identity_of_records_is_their_content() -> None:
    """Equal texts have equal identities; where they are cut matters."""

    def identity(*records: str) -> object:
        return TextRecords(records, "records", TextRules()).identity()

    assert identity("ab", "c") == identity("ab", "c")
    assert identity("ab", "c") != identity("a", "bc")


def test_records_of_another_kind() -> None:
    """The record is numbered."""
    with pytest.raises(DataError, match="odd: record 1 is int, expected text"):
        TextRecords(["a", 1], "odd", TextRules())
    with pytest.raises(DataError, match="odd: record 0: no field 'text'"):
        TextRecords([{"txt": "a"}], "odd", TextRules())
    with pytest.raises(DataError, match="odd: record 0 holds half of a surrogate"):
        TextRecords(["\ud800"], "odd", TextRules())


def test_columns_are_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset of columns gives the records of a list, from any place on."""

    class Columns:
        column_names = ("text",)
        texts = ("a", "b", "", "c", "d")

        def __len__(self) -> int:
            return len(self.texts)

        def __getitem__(self, part: slice) -> dict[str, tuple[str, ...]]:
            return {"text": self.texts[part]}

    monkeypatch.setattr(documents, "_SLICE", 2)
    columns = TextRecords(Columns(), "columns", TextRules())
    listed = TextRecords([{"text": t} for t in Columns.texts], "list", TextRules())

    for start in range(6):
        assert list(listed.pieces(0, start)) == list(columns.pieces(0, start))
    assert listed.identity() == columns.identity()
