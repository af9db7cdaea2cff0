"""Sources of text."""

from collections.abc import Callable
from pathlib import Path

import pytest

from speedtronic.errors import DataError
from speedtronic.shell.data.documents import Documents, TextFiles, TextRecords
from speedtronic.shell.data.text import TextRules

Text = Callable[..., Path]


def texts(documents: Documents) -> list[bytes]:
    """All pieces of all parts."""
    parts = range(documents.parts())
    return [piece.text for part in parts for piece in documents.pieces(part, 0)]


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
    documents = TextRecords(records, "records", TextRules())
    pieces = list(documents.pieces(0, 0))

    assert [b"a", b"b", b"c"] == [piece.text for piece in pieces]
    assert pieces[1:] == list(documents.pieces(0, pieces[0].place))


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
