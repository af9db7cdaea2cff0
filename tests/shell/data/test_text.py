"""Text and JSON-lines files as documents."""

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from speedtronic.errors import DataError
from speedtronic.shell.data.text import TextRules, json_pieces, text_pieces


def documents(path: Path, chunk_bytes: int = 2**20, **rules: str) -> list[bytes]:
    """The documents of a text file."""
    found, parts = [], []
    for piece in text_pieces(path, TextRules(**rules), chunk_bytes=chunk_bytes):
        parts.append(piece.text)
        if piece.last:
            found.append(b"".join(parts))
            parts = []
    assert [] == parts
    return found


def records(path: Path, **rules: str) -> list[bytes]:
    """The documents of a JSON-lines file."""
    return [piece.text for piece in json_pieces(path, TextRules(**rules))]


def written(path: Path, data: bytes) -> Path:
    """A file with this content."""
    path.write_bytes(data)
    return path


def test_a_file_is_one_document(tmp_path: Path) -> None:
    """Without a separator nothing divides a file."""
    path = written(tmp_path / "a.txt", b"one\n\ntwo\n")

    assert [b"one\n\ntwo\n"] == documents(path)


def test_a_separator_divides_and_disappears(tmp_path: Path) -> None:
    """Documents are what stands between separators; empty ones are skipped."""
    path = written(tmp_path / "a.txt", b"one\n\ntwo\n\n\n\nthree")

    assert [b"one", b"two", b"three"] == documents(path, separator="\n\n")


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 100])
def test_chunks_do_not_show(tmp_path: Path, chunk_bytes: int) -> None:
    """Marks, line ends, separators and characters may be cut by a chunk's end."""
    text = "\ufeff caf\xe9\r\n<|>\U0001f600\r<|>\r\n\u2028x"
    path = written(tmp_path / "a.txt", text.encode())

    assert [t.encode() for t in (" caf\xe9\n", "\U0001f600\n", "\n\u2028x")] == (
        documents(path, chunk_bytes, separator="<|>", newlines="lf")
    )


def test_line_ends_stay_unless_asked(tmp_path: Path) -> None:
    """CRLF and lone CR are kept; with newlines lf both become LF."""
    path = written(tmp_path / "a.txt", b"a\r\nb\rc\n")

    assert [b"a\r\nb\rc\n"] == documents(path)
    assert [b"a\nb\nc\n"] == documents(path, newlines="lf")


def test_crlf_and_lf_copies_are_the_same_when_normalised(tmp_path: Path) -> None:
    """A copy with Windows line ends gives the same documents."""
    text = b"one\n\ntwo\nthree\n"
    unix = written(tmp_path / "u.txt", text)
    windows = written(tmp_path / "w.txt", text.replace(b"\n", b"\r\n"))

    assert documents(unix, separator="\n\n", newlines="lf") == documents(
        windows, separator="\n\n", newlines="lf"
    )


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    """It is dropped at the start of a file, and only there."""
    path = written(tmp_path / "a.txt", b"\xef\xbb\xbfhello\xef\xbb\xbf")

    assert [b"hello\xef\xbb\xbf"] == documents(path)


@pytest.mark.parametrize("chunk_bytes", [1, 4, 100])
def test_a_bad_byte_is_named_with_its_place(tmp_path: Path, chunk_bytes: int) -> None:
    """The message has the path, the byte and its offset in the file."""
    path = written(tmp_path / "b.txt", b"\xef\xbb\xbfcaf\xe9\n and more")
    with pytest.raises(DataError) as caught:
        documents(path, chunk_bytes)

    assert f"{path} is not UTF-8: byte e9 at offset 6 " in str(caught.value)
    assert "data.encoding_errors: replace" in str(caught.value)


def test_a_file_cut_inside_a_character(tmp_path: Path) -> None:
    """The last bytes of a file are checked too."""
    path = written(tmp_path / "b.txt", b"caf\xc3")
    with pytest.raises(DataError, match="byte c3 at offset 3 "):
        documents(path)


def test_utf_16_is_recognised(tmp_path: Path) -> None:
    """The message says what the file seems to be."""
    path = written(tmp_path / "b.txt", "hello".encode("utf-16"))
    with pytest.raises(DataError, match="it looks like UTF-16"):
        documents(path)


@pytest.mark.parametrize("chunk_bytes", [1, 3, 100])
def test_bad_bytes_can_be_replaced_and_are_counted(
    tmp_path: Path, chunk_bytes: int
) -> None:
    """Each broken stretch becomes one U+FFFD; genuine ones are not counted."""
    path = written(tmp_path / "b.txt", b"a\xffb\xe2\x82c\xef\xbf\xbd\xc3")
    rules = TextRules(errors="replace")
    pieces = list(text_pieces(path, rules, chunk_bytes=chunk_bytes))

    assert "a\ufffdb\ufffdc\ufffd\ufffd" == b"".join(p.text for p in pieces).decode()
    assert 3 == sum(piece.replaced for piece in pieces)


@pytest.mark.parametrize("chunk_bytes", [1, 3, 100])
def test_going_on_counts_only_what_is_new(tmp_path: Path, chunk_bytes: int) -> None:
    """What was replaced before a place is not counted again after it."""
    path = written(tmp_path / "b.txt", b"a\xff|b|\xffc\xff|d\xff")
    rules = TextRules(separator="|", errors="replace")
    whole = list(text_pieces(path, rules, chunk_bytes=chunk_bytes))
    for number, piece in enumerate(whole):
        if not piece.last:
            continue
        rest = list(text_pieces(path, rules, piece.place, chunk_bytes))
        before = sum(p.replaced for p in whole[: number + 1])

        assert 4 == before + sum(p.replaced for p in rest)


def test_places_to_go_on_from(tmp_path: Path) -> None:
    """Reading from a document's place gives the documents after it."""
    path = written(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\n|two\r\n|three")
    rules = TextRules(separator="|", newlines="lf")
    whole = list(text_pieces(path, rules))
    places = [piece.place for piece in whole if piece.last]

    assert [b"one\n", b"two\n", b"three"] == documents(
        path, separator="|", newlines="lf"
    )
    for number, place in enumerate(places, 1):
        rest = list(text_pieces(path, rules, place))

        assert places[number:] == [piece.place for piece in rest if piece.last]
        assert b"".join(p.text for p in whole if p.place > place) == b"".join(
            piece.text for piece in rest
        )


def test_a_long_document_comes_in_pieces(tmp_path: Path) -> None:
    """Memory holds a chunk, not a document, while the separator is looked for."""
    path = written(tmp_path / "a.txt", b"x" * 1000 + b"<|>" + b"y" * 1000)
    pieces = list(text_pieces(path, TextRules(separator="<|>"), chunk_bytes=10))

    assert 12 >= max(len(piece.text) for piece in pieces)
    assert [1000, 1000] == [len(d) for d in documents(path, 10, separator="<|>")]


@pytest.mark.parametrize("packed", ["a.txt.gz", "a.txt.zst"])
def test_packed_files(tmp_path: Path, packed: str) -> None:
    """gzip and zstd files are read like plain ones."""
    pack = gzip.compress if packed.endswith("gz") else zstandard.compress
    path = written(tmp_path / packed, pack(b"hello|world"))

    assert [b"hello", b"world"] == documents(path, separator="|")


@pytest.mark.parametrize("packed", ["a.txt.gz", "a.txt.zst"])
def test_a_damaged_packed_file(tmp_path: Path, packed: str) -> None:
    """It is named; what could be read is not taken for the whole."""
    pack = gzip.compress if packed.endswith("gz") else zstandard.compress
    data = pack(bytes(range(97, 123)) * 50)
    path = written(tmp_path / packed, data[: len(data) // 2])
    with pytest.raises(DataError, match=f"{path} cannot be read to its end"):
        documents(path)


def test_a_file_that_is_not_packed(tmp_path: Path) -> None:
    """The ending promises gzip, the content is not."""
    path = written(tmp_path / "a.txt.gz", b"plain")
    with pytest.raises(DataError, match=f"{path} cannot be read"):
        documents(path)


def test_records_end_at_lf_only(tmp_path: Path) -> None:
    """U+2028, U+0085, VT and a lone CR inside a record do not end it."""
    texts = ["a\u2028b", "c\u0085d", "e\x0bf", "g"]
    lines = [json.dumps({"text": t}, ensure_ascii=False) for t in texts]
    lines[3] = lines[3].replace(": ", ":\r")
    unix = written(tmp_path / "u.jsonl", ("\n".join(lines) + "\n").encode())
    windows = written(tmp_path / "w.jsonl", ("\r\n".join(lines) + "\r\n").encode())

    assert [t.encode() for t in texts] == records(unix) == records(windows)


def test_blank_lines_and_empty_texts_are_skipped(tmp_path: Path) -> None:
    """A record without text is no document, and a file may end without LF."""
    path = written(tmp_path / "a.jsonl", b'\n{"text": ""}\n  \n{"text": "x"}')

    assert [b"x"] == records(path)


def test_a_byte_order_mark_before_the_first_record(tmp_path: Path) -> None:
    """It belongs to the file, not to the record."""
    path = written(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"text": "x"}\n')

    assert [b"x"] == records(path)


def test_prompt_and_completion(tmp_path: Path) -> None:
    """Two pieces of one document, of which the second is learned."""
    path = written(tmp_path / "a.jsonl", b'{"q": "2+2=", "a": "4"}\n')
    rules = TextRules(prompt_field="q", completion_field="a")
    found = [(p.text, p.learned, p.last) for p in json_pieces(path, rules)]

    assert [(b"2+2=", False, False), (b"4", True, True)] == found


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"txt": "x"}', "no field 'text'; it has txt, did you mean 'txt'"),
        (b'{"text": 5}', "field 'text' is int, expected text"),
        (b"[1]", "expected an object, found list"),
        (b'{"text": "x"', "is not JSON"),
        (b'{"text": "\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_a_bad_record_is_named(tmp_path: Path, line: bytes, told: str) -> None:
    """The message has path, line number and byte offset."""
    path = written(tmp_path / "a.jsonl", b'{"text": "x"}\n' + line + b"\n")
    with pytest.raises(DataError) as caught:
        records(path)

    assert f"{path}: line 2 (byte 14)" in str(caught.value)
    assert told in str(caught.value)


def test_a_bad_byte_in_a_record(tmp_path: Path) -> None:
    """The offset counts from the start of the file."""
    path = written(tmp_path / "a.jsonl", b'{"text": "x"}\n{"text": "caf\xe9"}\n')
    with pytest.raises(DataError, match="byte e9 at offset 27 "):
        records(path)


def test_places_of_records(tmp_path: Path) -> None:
    """Reading from a record's place gives the records after it."""
    path = written(tmp_path / "a.jsonl", b'{"text": "x"}\n{"text": "y"}\n')
    rules = TextRules()
    whole = list(json_pieces(path, rules))

    assert whole[1:] == list(json_pieces(path, rules, whole[0].place))
