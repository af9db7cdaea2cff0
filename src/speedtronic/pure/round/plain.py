"""Plain JSON that others wrote: one canonical encoding, and strict, bounded reading.

What a lane holds was written by somebody else. It is read by readers, functions of
``(value, where)`` that return the checked value or raise `Corrupt` in one line that
says where, what was expected and what was found. Unknown and missing keys are
mistakes, a repeated key is one, so are numbers that JSON does not have.

Deliberately absent: defaults and conversions. A value is right or it is refused.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeVar

from speedtronic.errors import Corrupt
from speedtronic.pure import strict_json

T = TypeVar("T")
Reader = Callable[[Any, str], T]
MAX_INTEGER = 2**53 - 1  # what every JSON reader keeps exactly
MAX_MESSAGE = 1000  # characters of an error


def encode(value: Any) -> bytes:
    """The one encoding of a plain value: sorted keys, no spaces, ASCII.

    >>> encode({"b": 1, "a": [None, "x"]})
    b'{"a":[null,"x"],"b":1}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def digest(value: Any) -> str:
    """The sha256 of the encoding, as 64 hex digits.

    >>> digest({})[:16]
    '44136fa355b3678a'
    """
    return sha256(encode(value)).hexdigest()


def decode(data: bytes, what: str, max_bytes: int) -> Any:
    """Parse JSON that may be anything at all.

    Raises:
        Corrupt: too large, not UTF-8, not JSON, too deep, a repeated key, a number
            that is not finite, or not in the one encoding of `encode`, so that no
            two files say the same thing.

    >>> decode(b'{"a":1}', "header", 100)
    {'a': 1}
    >>> decode(b'{"a": 1}', "header", 100)
    Traceback (most recent call last):
    speedtronic.errors.Corrupt: header: expected the canonical encoding
    """
    if len(data) > max_bytes:
        raise Corrupt(f"{what}: expected at most {max_bytes} bytes, found {len(data)}")
    try:
        value = strict_json.parse(data)
        canonical = encode(value)
    except ValueError as error:
        raise Corrupt(f"{what}: expected JSON, found {shorten(error)}") from None
    if canonical != data:
        raise Corrupt(f"{what}: expected the canonical encoding")
    return value


def record(value: Any, where: str, readers: Mapping[str, Reader[Any]]) -> Any:
    """Read an object that has exactly these keys; all its mistakes in one error.

    >>> record({"a": 1}, "x", {"a": integer(0, 5)})
    {'a': 1}
    >>> record({"a": 9, "c": 1}, "x", {"a": integer(0, 5), "b": integer(0, 5)})
    Traceback (most recent call last):
    speedtronic.errors.Corrupt: x: unknown key 'c'; x: missing key 'b'; x.a: expected
    an integer from 0 to 5, found 9
    """
    if not isinstance(value, dict):
        raise Corrupt(f"{where}: expected an object, found {shorten(value)}")
    told = [f"{where}: unknown key {shorten(k)}" for k in value if k not in readers]
    told += [f"{where}: missing key {k!r}" for k in readers if k not in value]
    found: dict[str, Any] = {}
    for key, reader in readers.items():
        if key in value:
            try:
                found[key] = reader(value[key], f"{where}.{key}")
            except Corrupt as error:
                told.append(str(error))
    if told:
        line = "; ".join(told[:8])
        raise Corrupt(line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]}...")
    return found


def integer(low: int = 0, high: int = MAX_INTEGER) -> Reader[int]:
    """An integer in a closed range; true and 1.0 are not integers."""

    def read(value: Any, where: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise _expected(where, f"an integer from {low} to {high}", value)
        return value

    return read


def text(pattern: str, meaning: str) -> Reader[str]:
    """A string that matches the whole of a pattern."""
    compiled = re.compile(pattern, re.ASCII)

    def read(value: Any, where: str) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise _expected(where, meaning, value)
        return value

    return read


def words(max_length: int) -> Reader[str]:
    """Free text of bounded length, without control characters."""

    def read(value: Any, where: str) -> str:
        if (
            not isinstance(value, str)
            or len(value) > max_length
            or not value.isprintable()
        ):
            raise _expected(where, f"up to {max_length} printable characters", value)
        return value

    return read


def one_of(*allowed: Any) -> Reader[Any]:
    """One of a few values of the same type."""

    def read(value: Any, where: str) -> Any:
        if type(value) is not type(allowed[0]) or value not in allowed:
            raise _expected(where, " or ".join(repr(v) for v in allowed), value)
        return value

    return read


def scalar(value: Any, where: str) -> int | float | str:
    """A finite number or a short text: a setting written down for readers."""
    if isinstance(value, str):
        return words(100)(value, where)
    if type(value) is int and abs(value) <= MAX_INTEGER:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    raise _expected(where, "a finite number or a text", value)


def boolean(value: Any, where: str) -> bool:
    """True or false; 1 and 0 are neither."""
    if not isinstance(value, bool):
        raise _expected(where, "true or false", value)
    return value


def number(value: Any, where: str) -> float:
    """A finite number with a fraction; an integer would be another text of it."""
    if type(value) is not float or not math.isfinite(value):
        raise _expected(where, "a finite number", value)
    return value


def optional(reader: Reader[T]) -> Reader[T | None]:
    """The same, or null."""
    return lambda value, where: None if value is None else reader(value, where)


def array(reader: Reader[T], max_length: int) -> Reader[tuple[T, ...]]:
    """A list of bounded length."""

    def read(value: Any, where: str) -> tuple[T, ...]:
        if not isinstance(value, list) or len(value) > max_length:
            raise _expected(where, f"a list of at most {max_length}", value)
        return tuple(reader(item, f"{where}[{i}]") for i, item in enumerate(value))

    return read


def table(reader: Reader[T], max_length: int) -> Reader[tuple[tuple[str, T], ...]]:
    """An object with free keys, as pairs sorted by key."""
    key = words(64)

    def read(value: Any, where: str) -> tuple[tuple[str, T], ...]:
        if not isinstance(value, dict) or len(value) > max_length:
            raise _expected(where, f"an object of at most {max_length} keys", value)
        return tuple(
            (key(k, where), reader(value[k], f"{where}.{k}")) for k in sorted(value)
        )

    return read


def _expected(where: str, meaning: str, value: Any) -> Corrupt:
    return Corrupt(f"{where}: expected {meaning}, found {shorten(value)}")


def shorten(value: Any) -> str:
    """A value or an error as text that fits in a line."""
    told = str(value) if isinstance(value, Exception) else repr(value)
    return told if len(told) <= 60 else told[:57] + "..."
