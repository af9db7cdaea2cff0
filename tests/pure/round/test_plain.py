"""Plain JSON: one encoding, and nothing unexpected gets through."""

from itertools import count

import pytest

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain


def test_the_encoding_is_canonical() -> None:
    """Keys are sorted, nothing is left to chance."""
    assert plain.encode({"b": 1, "a": 2}) == plain.encode({"a": 2, "b": 1})


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_not_written(number: float) -> None:
    """Nobody else could read them."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        plain.encode(number)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"a":1,"a":2}', "the key 'a' stands twice"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":1e999}', "the number 1e999 is too large"),
        (b'{"a":"\xff"}', "utf-8"),
        (b"[" * 100_000, "nested deeper than 64"),
        (b"[" * 65 + b"]" * 65, "nested deeper than 64"),
        (b"9" * 5000, "5000 digits"),
        (b"", "Expecting value"),
        (b'{"a": 1}', "canonical"),
        (b'{"b":1,"a":1}', "canonical"),
        (b'{"a":"\xc3\xa9"}', "canonical"),
        (b"{" + b" " * 200_000 + b"}", "at most 100000 bytes"),
    ],
)
def test_strange_bytes_are_corrupt(data: bytes, told: str) -> None:
    """Each kind of strangeness is one line of a typed error."""
    with pytest.raises(Corrupt, match=told) as caught:
        plain.decode(data, "it", 100_000)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (plain.integer(0, 9), 10),
        (plain.integer(0, 9), -1),
        (plain.integer(0, 9), True),
        (plain.integer(0, 9), 1.0),
        (plain.integer(0, 9), "1"),
        (plain.text("[a-z]+", "letters"), "abc\n"),
        (plain.text("[a-z]+", "letters"), 3),
        (plain.words(3), "abcd"),
        (plain.words(3), "a\x1b"),
        (plain.one_of("a", "b"), "c"),
        (plain.one_of(True, False), 1),
        (plain.one_of(1), True),
        (plain.scalar, 10**99),
        (plain.scalar, True),
        (plain.scalar, None),
        (plain.scalar, float("nan")),
        (plain.scalar, True),
        (plain.array(plain.integer(), 1), [1, 2]),
        (plain.array(plain.integer(), 1), {"0": 1}),
        (plain.table(plain.integer(), 1), {"a": 1, "b": 2}),
        (plain.table(plain.integer(), 1), [1]),
    ],
    ids=count(),
)
def test_readers_refuse(reader: plain.Reader[object], value: object) -> None:
    """A value of the wrong type or size is named with its place."""
    with pytest.raises(Corrupt, match=r"^file\.x: expected .*, found "):
        reader(value, "file.x")


def test_readers_return_what_they_read() -> None:
    """Lists and tables become tuples, which nobody can change."""
    assert (1, 2) == plain.array(plain.integer(), 2)([1, 2], "x")
    assert (("a", 1), ("b", 2)) == plain.table(plain.integer(), 2)(
        {"b": 2, "a": 1}, "x"
    )
    assert plain.optional(plain.integer())(None, "x") is None
    assert plain.one_of(True, False)(False, "x") is False


def test_all_mistakes_of_an_object_come_together() -> None:
    """One error names every wrong, unknown and missing key."""
    readers = {"a": plain.integer(), "b": plain.integer(), "c": plain.integer()}
    with pytest.raises(Corrupt) as caught:
        plain.record({"a": "x", "d": 1, "c": 2}, "m", readers)
    assert (
        "m: unknown key 'd'; m: missing key 'b'; m.a: expected an integer from 0 to "
        "9007199254740991, found 'x'" == str(caught.value)
    )


def test_a_message_stays_short() -> None:
    """However long the wrong value is."""
    with pytest.raises(Corrupt) as caught:
        plain.integer()("9" * 10_000, "x")
    assert len(str(caught.value)) < 150
