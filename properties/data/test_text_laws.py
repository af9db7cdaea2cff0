"""Laws of text: documents do not depend on how a file is read."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedtronic.errors import DataError
from speedtronic.shell.data.text import Piece, TextRules, json_pieces, text_pieces

TEXTS = st.text(
    st.sampled_from("ab|\r\n\u00e9\u2028\u0085\x0b\U0001f600\ufeff\ufffd"), max_size=40
)
CHUNKS = st.integers(1, 50)
SEPARATORS = st.sampled_from([None, "|", "\n", "\n\n", "|\n", "\u00e9"])


@contextmanager
def file_of(data: bytes, name: str = "text.txt") -> Iterator[Path]:
    """A file with this content, for the time of an example."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


def joined(pieces: list[Piece]) -> list[bytes]:
    """Pieces put together to documents."""
    found, parts = [], []
    for piece in pieces:
        parts.append(piece.text)
        if piece.last:
            found.append(b"".join(parts))
            parts = []
    assert [] == parts
    return found


@given(
    text=TEXTS,
    mark=st.booleans(),
    separator=SEPARATORS,
    newlines=st.sampled_from(["keep", "lf"]),
    chunk=CHUNKS,
)
def test_documents_are_those_of_the_whole_text(
    text: str, mark: bool, separator: str | None, newlines: str, chunk: int
) -> None:
    """Whatever the chunks: drop the mark, mend line ends, divide, leave out blanks."""
    whole = text.removeprefix("\ufeff")
    if newlines == "lf":
        whole = whole.replace("\r\n", "\n").replace("\r", "\n")
    parts = [whole] if separator is None else whole.split(separator)
    expected = [part.encode() for part in parts if part]
    plain = text if mark or text.startswith("\ufeff") else whole
    data = ("\ufeff" + whole if mark else plain).encode()
    rules = TextRules(separator=separator, newlines=newlines)
    with file_of(data) as path:
        assert expected == joined(list(text_pieces(path, rules, 0, chunk)))


@given(
    data=st.binary(max_size=40).map(lambda b: bytes(x & 0xC7 | 0x41 for x in b)),
    chunk=CHUNKS,
)
def test_replaced_bytes_do_not_depend_on_chunks(data: bytes, chunk: int) -> None:
    """Text and counts are those of decoding the whole file."""
    data = b"a" + data
    rules = TextRules(errors="replace")
    with file_of(data) as path:
        pieces = list(text_pieces(path, rules, 0, chunk))
    text = data.decode("utf-8", "replace")
    genuine = data.count("\ufffd".encode())

    assert [text.encode()] == joined(pieces)
    assert text.count("\ufffd") - genuine == sum(piece.replaced for piece in pieces)


@given(text=TEXTS, separator=SEPARATORS, chunk=CHUNKS, other=CHUNKS)
def test_going_on_from_any_document(
    text: str, separator: str | None, chunk: int, other: int
) -> None:
    """From the place of a document come the documents after it."""
    rules = TextRules(separator=separator, newlines="lf")
    with file_of(text.encode()) as path:
        pieces = list(text_pieces(path, rules, 0, chunk))
        for number, piece in enumerate(pieces):
            if piece.last:
                rest = list(text_pieces(path, rules, piece.place, other))

                assert joined(pieces[number + 1 :]) == joined(rest)


@given(
    texts=st.lists(st.text(max_size=20), max_size=8),
    escape=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n"]),
)
def test_a_record_is_a_line_that_ends_with_lf(
    texts: list[str], escape: bool, ending: str
) -> None:
    """Whatever the texts hold, each record gives its text back."""
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    lines = [json.dumps({"text": t}, ensure_ascii=escape) + ending for t in texts]
    with file_of("".join(lines).encode(), "text.jsonl") as path:
        found = [piece.text for piece in json_pieces(path, TextRules())]

    assert [text.encode() for text in texts if text] == found


@given(
    text=TEXTS,
    junk=st.binary(max_size=3),
    padding=st.sampled_from([0, 50]),
    chunk=CHUNKS,
)
def test_what_is_not_utf_8_is_refused_where_it_is(
    text: str, junk: bytes, padding: int, chunk: int
) -> None:
    """Exactly the files that Python cannot decode, at the offset that it names."""
    data = b"x" * padding + text.encode() + junk + b"y" * padding
    with file_of(data) as path:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            with pytest.raises(DataError, match=f"at offset {error.start} "):
                list(text_pieces(path, TextRules(), 0, chunk))
        else:
            list(text_pieces(path, TextRules(), 0, chunk))
