"""Plain values in full form to a `Config`: strictly, with every mistake at once.

No value is converted with a loss: 1.9 is no integer, "7" is no number, "false" is no
boolean. Two conversions are kept because nothing is lost by them: an integral float is
an integer (YAML's ``1e4``), and a word from a closed list may be in any case.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

import attrs
import cattrs
from cattrs.errors import (
    BaseValidationError,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from speedtronic.pure.config import Config, Secret
from speedtronic.pure.strict_json import MAX_DIGITS
from speedtronic.shell.config_names import did_you_mean, shown
from speedtronic.shell.redact import redact

_LARGEST = 2**63 - 1  # what a tensor of integers can hold
_WORDS_FOR_BOOLEANS = ("true", "yes", "on", "false", "no", "off")


class _Mistake(ValueError):
    """What was expected where, and what was found."""


def structure(full: Mapping[str, Any]) -> tuple[Config | None, list[str]]:
    """A config from its full form, or one line for each mistake in it.

    >>> structure({"optimizer": {"lr": "fast", "lrr": 1}})[1]
    ["optimizer.lr: expected a finite number, found the text 'fast'",
     'optimizer.lrr: unknown field; did you mean optimizer.lr?']
    """
    try:
        return _converter.structure(full, Config), []
    except BaseValidationError as error:
        return None, _lines(error, "")


def found(value: Any) -> str:
    """A value as a message shows it: its kind and, if short, itself.

    >>> found("x"), found(None), found([1, 2])
    ("the text 'x'", 'null', 'a list')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        value = redact(value)
        return f"the text {value if len(value) <= 40 else value[:40] + '...'!r}"
    if isinstance(value, int | float):
        return "a huge number" if 1e100 < abs(value) else f"the number {value}"
    if isinstance(value, list | tuple):
        return "a list"
    return "fields" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def _boolean(value: Any, _: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = isinstance(value, str) and value.lower() in _WORDS_FOR_BOOLEANS
    hint = "; write it as true or false, without quotes" if word else ""
    raise _Mistake(f"expected true or false, found {found(value)}{hint}")


def _integer(value: Any, _: Any) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and abs(value) <= _LARGEST and value == math.floor(value):
        return int(value)
    raise _Mistake(f"expected an integer, found {found(value)}{_unquote(value)}")


def _number(value: Any, _: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and abs(value) <= 1.7e308:
        return float(value)
    raise _Mistake(f"expected a finite number, found {found(value)}{_unquote(value)}")


def _unquote(value: Any) -> str:
    try:
        finite = math.isfinite(float(value)) if isinstance(value, str) else False
    except ValueError:
        finite = False
    return "; write it without quotes" if finite and value.isascii() else ""


def _text(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        hint = "; put it in quotes" if isinstance(value, bool | int | float) else ""
        raise _Mistake(f"expected text, found {found(value)}{hint}")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise _Mistake(f"expected text, found half a character in {value!a}")
    if redact(value) != value:
        raise _Mistake("holds an access token, which a run would copy; use HF_TOKEN")
    return value


def _secret(value: Any, _: Any) -> Secret:
    if isinstance(value, str):
        return Secret(value)
    raise _Mistake("expected text, found something else (not shown, it is a secret)")


def _either(*kinds: type) -> Callable[[Any, Any], Any]:
    """A value of one of several kinds, told apart without converting."""

    def hook(value: Any, _: Any) -> Any:
        for kind in kinds:
            like = (int, float) if kind is float else kind
            if isinstance(value, like) and isinstance(value, bool) == (kind is bool):
                return _converter.structure(value, kind)
        names = {
            bool: "true, false",
            int: "an integer",
            float: "a number",
            str: "text",
        }
        expected = " or ".join(names[kind] for kind in kinds)
        raise _Mistake(f"expected {expected}, found {found(value)}")

    return hook


def _free(value: Any, _: Any) -> dict[str, Any]:
    """Keyword arguments: any names, but plain values that every file can hold."""
    if isinstance(value, Mapping):
        return {_text(k, str): _plain(v, shown(k)) for k, v in value.items()}
    raise _Mistake(f"expected fields, found {found(value)}")


def _plain(value: Any, path: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, str)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and abs(value) < 10**MAX_DIGITS:
        return value
    if isinstance(value, list | tuple):
        return [_plain(v, f"{path}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            _text(k, str): _plain(v, f"{path}.{shown(k)}") for k, v in value.items()
        }
    raise _Mistake(f"expected plain finite values, found {found(value)} at {path}")


def _list(kind: Any) -> Callable[[Any, Any], tuple[Any, ...]]:
    """``tuple[X, ...]`` or ``tuple[X, X]``; text is not a list of characters."""
    element, *more = get_args(kind)
    length = None if more == [...] else 1 + len(more)

    def hook(value: Any, _: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _Mistake(f"expected a list, found {found(value)}")
        if length is not None and len(value) != length:
            raise _Mistake(f"expected a list of {length}, found one of {len(value)}")
        done, errors = [], []
        for i, item in enumerate(value):
            try:
                done.append(_converter.structure(item, element))
            except (_Mistake, BaseValidationError) as error:
                note = IterableValidationNote(f"element {i}", i, element)
                error.__notes__ = [note]
                errors.append(error)
        if errors:
            raise IterableValidationError("in a list", errors, kind)
        return tuple(done)

    return hook


def _section(cls: Any) -> Callable[[Any, Any], Any]:
    """A frozen attrs class; each field is checked even where another is wrong."""
    options: dict[str, Any] = {
        a.name: override(struct_hook=_field(a)) for a in attrs.fields(cls)
    }
    options["_cattrs_forbid_extra_keys"] = True
    build = make_dict_structure_fn(cls, _converter, **options)

    def hook(value: Any, kind: Any) -> Any:
        if isinstance(value, Mapping):
            return build(value, kind)
        raise _Mistake(f"expected fields, found {found(value)}")

    return hook


def _field(attribute: Any) -> Callable[[Any, Any], Any]:
    optional = type(None) in get_args(attribute.type)

    def hook(value: Any, kind: Any) -> Any:
        if value is None and not optional:
            raise _Mistake("expected a value, found null; leave it out for the default")
        structured = _converter.structure(value, kind)
        return structured if attrs.has(kind) else _checked(attribute, structured)

    return hook


def _checked(attribute: Any, value: Any) -> Any:
    """The value if its field's own check allows it, for a word in any case."""
    cases = [value, value.lower(), value.upper()] if isinstance(value, str) else [value]
    mistakes = []
    for case in cases:
        try:
            attribute.validator(None, attribute, case)
            return case
        except ValueError as error:
            mistakes.append(error)
    raise _Mistake(str(mistakes[0]).removeprefix(f"{attribute.name}: "))


def _lines(error: BaseException, path: str) -> list[str]:
    """One line for each mistake in a tree of them."""
    if isinstance(error, ClassValidationError | IterableValidationError):
        noted, rest = error.group_exceptions()
        lines: list[str] = []
        for inner, note in noted:
            if isinstance(note, IterableValidationNote):
                lines += _lines(inner, f"{path}[{note.index}]")
            else:
                lines += _lines(inner, f"{path}.{note.name}" if path else note.name)
        for inner in rest:
            lines += _lines(inner, path)
        return lines
    if isinstance(error, ForbiddenExtraKeysError):
        here = [a.name for a in attrs.fields(error.cl)]
        prefix = f"{path}." if path else ""
        return [
            f"{prefix}{shown(name)}: unknown field; {did_you_mean(name, path, here)}"
            for name in sorted(map(str, error.extra_fields))
        ]
    return [f"{path}: {error}"]


_converter = cattrs.Converter()
_converter.register_structure_hook(bool, _boolean)
_converter.register_structure_hook(int, _integer)
_converter.register_structure_hook(float, _number)
_converter.register_structure_hook(str, _text)
_converter.register_structure_hook(Secret, _secret)
_converter.register_structure_hook(bool | str, _either(bool, str))
_converter.register_structure_hook(int | str, _either(int, str))
_converter.register_structure_hook(float | str, _either(float, str))
_converter.register_structure_hook_func(
    lambda kind: getattr(kind, "__origin__", None) is dict, _free
)
_converter.register_structure_hook_factory(
    lambda kind: getattr(kind, "__origin__", None) is tuple, _list
)
_converter.register_structure_hook_factory(attrs.has, _section)
