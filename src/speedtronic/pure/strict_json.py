"""JSON that every parser reads: one object, one line, no NaN and no Infinity.

RFC 8259 has no text for numbers that are not finite, and Python's `json` writes one
anyway. Here such a number becomes ``null``, and the object says which under
``"non_finite"``: a JSON Pointer (RFC 6901) to the place, and the text of the number.
So a strict parser reads the line, and `from_json` gets back what was written.

Deliberately absent: any guess. A value without a plain JSON form is a TypeError.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from speedtronic.pure.config.base import Secret

NON_FINITE = "non_finite"


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
    text = line.decode() if isinstance(line, bytes) else line
    fields = json.loads(text, parse_constant=_refuse)
    if not isinstance(fields, dict):
        raise ValueError(f"expected a JSON object, found {text[:40]!r}")
    found = fields.pop(NON_FINITE, {})
    try:
        for pointer, number in found.items():
            _put(fields, pointer, float(number))
    except (AttributeError, LookupError, TypeError):
        raise ValueError(f"{NON_FINITE!r} names no place: {found!r}") from None
    return fields


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


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
    """Write ``number`` to the place that ``pointer`` names."""
    keys = [k.replace("~1", "/").replace("~0", "~") for k in pointer.split("/")[1:]]
    for key in keys[:-1]:
        fields = fields[int(key) if isinstance(fields, list) else key]
    last = keys[-1]
    fields[int(last) if isinstance(fields, list) else last] = number
