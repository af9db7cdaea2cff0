"""JSON that every parser reads: one object, one line, no NaN and no Infinity.

RFC 8259 has no text for numbers that are not finite, and Python's `json` writes one
anyway. Here such a number becomes ``null``, and the object says which under
``"non_finite"``: a JSON Pointer (RFC 6901) to the place, and the text of the number.
So a strict parser reads the line, and `from_json` gets back what was written.

What is read may have been written by anybody, so every way to read JSON here goes
through `parse`: bounded in depth and in the digits of a number, no key twice, no number
that is not finite, no half of a surrogate pair. Its work grows with the length of the
text and with nothing else; how long a text may be is the caller's to say, who has not
read it yet.

Deliberately absent: any guess. A value without a plain JSON form is a TypeError.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from speedtronic.pure.config.base import Secret

NON_FINITE = "non_finite"
MAX_DEPTH = 64  # objects and lists inside each other; Python's own limit is a crash
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
MAX_DIGITS = 100  # of an integer; a float holds none of more than 309
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def to_json(fields: Mapping[str, Any]) -> str:
    """One line of ASCII without its line end.

    Tensors and NumPy arrays become numbers or lists of numbers, paths become text, a
    secret becomes ``***``, and half a surrogate pair becomes ``?``.

    Raises:
        TypeError: naming the place of a value that has no JSON form.
        ValueError: if the top level uses the reserved name ``non_finite``.

    >>> to_json({"step": 3, "loss": float("nan"), "norms": [1.5, float("inf")]})
    '{"step": 3, "loss": null, "norms": [1.5, null], "non_finite": {"/loss": "NaN",
    "/norms/1": "Infinity"}}'
    """
    if NON_FINITE in fields:
        raise ValueError(f"{NON_FINITE!r} is reserved for numbers that JSON lacks")
    found: dict[str, str] = {}
    plain = _plain(fields, "", found)
    if found:
        plain[NON_FINITE] = found
    return json.dumps(plain, allow_nan=False)


def parse(text: str | bytes, max_depth: int = MAX_DEPTH) -> Any:
    """Any JSON value, written by anybody.

    Args:
        text: the whole of it; bytes are UTF-8.
        max_depth: how many objects and lists may stand inside each other.

    Raises:
        ValueError: it is not strictly valid, or beyond a limit of this module.

    >>> parse("[1, {}]")
    [1, {}]
    >>> parse("[[1]]", max_depth=1)
    Traceback (most recent call last):
    ValueError: values are nested deeper than 1
    """
    raw = text if isinstance(text, bytes) else text.encode()
    if _depth(raw) > max_depth:
        raise ValueError(f"values are nested deeper than {max_depth}")
    text = raw.decode()
    value = json.loads(
        text,
        object_pairs_hook=_unique,
        parse_constant=_refuse,
        parse_float=_float,
        parse_int=_integer,
    )
    if _HALF_PAIR.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def from_json(line: str | bytes) -> dict[str, Any]:
    """The object that `to_json` wrote.

    Raises:
        ValueError: unless the line is one strictly valid JSON object in UTF-8.

    >>> from_json('{"loss": null, "non_finite": {"/loss": "NaN"}}')
    {'loss': nan}
    >>> from_json('{"loss": NaN}')
    Traceback (most recent call last):
    ValueError: NaN is not JSON
    """
    fields = parse(line)
    if not isinstance(fields, dict):
        raise ValueError(f"expected a JSON object, found {line[:40]!r}")
    found = fields.pop(NON_FINITE, {})
    try:
        for pointer, number in found.items():
            _put(fields, pointer, _NUMBERS[number])
    except (AttributeError, LookupError, TypeError):
        raise ValueError(f"{NON_FINITE!r} names no null: {str(found)[:40]}") from None
    return fields


def _depth(raw: bytes) -> int:
    """How deep values are nested, at least as far as the text is valid.

    It is found without nesting calls: strings are cut out, brackets are counted.
    """
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(unescaped.split(b'"')[::2]).translate(None, _NOT_BRACKETS)
    depth = deepest = 0
    for bracket in outside:
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {twice[:40]!r} stands twice in one object")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"an integer has {len(text)} digits, more than {MAX_DIGITS}")
    return int(text)


def _plain(value: Any, place: str, found: dict[str, str]) -> Any:
    """``value`` in JSON's own types; ``found`` takes the numbers that it lacks."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        found[place] = _text(value)
        return None
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, Mapping):
        named = {_key(key, place): item for key, item in value.items()}
        return {k: _plain(x, f"{place}/{_escape(k)}", found) for k, x in named.items()}
    if isinstance(value, list | tuple):
        return [_plain(x, f"{place}/{i}", found) for i, x in enumerate(value)]
    if hasattr(value, "tolist"):
        return _plain(_numbers(value), place, found)
    if isinstance(value, Secret):
        return str(value)
    if hasattr(value, "__fspath__"):
        return _plain(str(value), place, found)
    raise TypeError(f"{place}: {type(value).__name__} {value!r} has no JSON form")


def _numbers(value: Any) -> Any:
    """A tensor or NumPy value as Python numbers.

    NumPy's long double stays what it is in ``tolist``, hence the cast.
    """
    plain = value.tolist()
    return float(plain) if isinstance(plain, type(value)) else plain


def _text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _key(key: object, place: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{place}: the key {key!r} is not text")
    return _clean(key)


def _clean(text: str) -> str:
    """The text with half surrogate pairs, which UTF-8 cannot hold, as ``?``."""
    return text.encode("utf-8", "replace").decode()


def _escape(key: str) -> str:
    """A key as one step of a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _put(fields: Any, pointer: str, number: float) -> None:
    """Write ``number`` to the place that ``pointer`` names, where null stands."""
    keys = [k.replace("~1", "/").replace("~0", "~") for k in pointer.split("/")[1:]]
    for key in keys[:-1]:
        fields = fields[int(key) if isinstance(fields, list) else key]
    last = int(keys[-1]) if isinstance(fields, list) else keys[-1]
    if fields[last] is not None:
        raise LookupError(last)
    fields[last] = number
