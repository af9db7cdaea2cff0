"""How a config field is declared: its scope, its check and its one-line help.

Nothing here imports torch: a config can be read and checked without it.

``scope`` says who must agree. A ``run`` field is part of what the run computes: all
nodes of a run share it, and a resumed run may not change it. A ``node`` field
belongs to one machine (device, precision, micro-batch, workers, paths) and a
``free`` field may change at any time without changing a computed value (logging,
how long to train, what to keep).
"""

from collections.abc import Callable
from typing import Any, Literal

import attrs

Scope = Literal["run", "node", "free"]
Check = Callable[[Any], str | None]  # None if fine, else what was expected


def field(
    default: Any,
    help: str,
    *,
    scope: Scope = "run",
    check: Check | None = None,
) -> Any:
    """Declare one config field.

    Args:
        default: a value, or a callable that makes a fresh one.
        help: one line for the starter config and the reference page.
        scope: who must agree on it.
        check: returns what was expected when a value is bad; not asked about None,
            nor about empty text, which is refused everywhere.
    """
    metadata = {"help": help, "scope": scope}

    def validator(_: Any, attribute: Any, value: Any) -> None:
        expected = "some text" if value == "" else None
        if expected is None and check is not None and value is not None:
            expected = check(value)
        if expected is not None:
            raise ValueError(f"{attribute.name}: expected {expected}, found {value!r}")

    if callable(default):
        return attrs.field(factory=default, validator=validator, metadata=metadata)
    return attrs.field(default=default, validator=validator, metadata=metadata)


def positive(value: float) -> str | None:
    """Above zero."""
    return None if value > 0 else "a number above 0"


def not_negative(value: float) -> str | None:
    """Zero or above."""
    return None if value >= 0 else "a number of at least 0"


def fraction(value: float) -> str | None:
    """In [0, 1]."""
    return None if 0 <= value <= 1 else "a number from 0 to 1"


def below_one(value: float) -> str | None:
    """In [0, 1)."""
    return None if 0 <= value < 1 else "a number from 0 to below 1"


def one_of(*allowed: str) -> Check:
    """One of the given words."""

    def check(value: str) -> str | None:
        return None if value in allowed else "one of " + ", ".join(allowed)

    return check


def word_or(check: Check, *words: str) -> Check:
    """One of the given words, or a number that passes a check."""

    def check_one(value: float | str) -> str | None:
        told = None if value in words else check(0 if isinstance(value, str) else value)
        return None if told is None else f"{', '.join(words)} or {told}"

    return check_one


def each(check: Check) -> Check:
    """A check applied to every element."""

    def check_all(values: Any) -> str | None:
        return next((told for v in values if (told := check(v)) is not None), None)

    return check_all


def file_name(value: str) -> str | None:
    """A name that can be a file's: it stays inside the folder it is put in."""
    plain = value.isprintable() and not set(value) & set("/\\")
    if plain and value.strip(" .") and value == value.strip() and len(value) <= 100:
        return None
    return "a name without slashes (it names a folder), at most 100 characters"


def inner_folder(value: str) -> str | None:
    """A folder that stays inside the one it is put in."""
    parts = value.replace("\\", "/").split("/")
    if value.isprintable() and parts[0] not in ("", "~") and ".." not in parts:
        return None
    return "a folder inside the run folder, without .."


class Secret:
    """Text that never shows itself: it prints as ``***``.

    >>> Secret("hf_abc")
    ***
    >>> f"{Secret('hf_abc')}", Secret("hf_abc").reveal()
    ('***', 'hf_abc')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one call that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(("Secret", self._text))

    def __reduce__(self) -> Any:
        raise TypeError("a secret cannot be pickled or copied to a file")
