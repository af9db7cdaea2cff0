"""Types and defaults of config fields in a reader's words."""

from typing import Any, get_args, get_origin

import attrs

from speedtronic.pure.config import Secret
from speedtronic.pure.config.fields import Field
from speedtronic.shell.config_file import dump_yaml

_ONE = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "text",
    Secret: "secret text",
    type(None): "null",
}


def type_words(kind: Any) -> str:
    """A field's type as a person would say it.

    >>> type_words(int | None), type_words(tuple[str, ...]), type_words(bool)
    ('integer or null', 'list of text', 'true or false')
    >>> type_words(tuple[float, float])
    'list of 2: number'
    """
    if kind in _ONE:
        return _ONE[kind]
    if get_origin(kind) is tuple:
        element, *more = get_args(kind)
        return f"list of {'' if more == [...] else f'{1 + len(more)}: '}" + (
            "fields" if attrs.has(element) else type_words(element)
        )
    if get_origin(kind) is dict:
        return "fields"
    return " or ".join(type_words(part) for part in get_args(kind))


def default_words(field: Field) -> str:
    """A field's default as a config file writes it, on one line.

    >>> from speedtronic.pure.config.fields import FIELDS
    >>> default_words(FIELDS["optimizer.eps"]), default_words(FIELDS["run.log_every"])
    ('1.0e-08', 'null')
    """
    value = field.default
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(str, value)) + "]"
    return dump_yaml({"_": value}).removeprefix("_: ").rstrip("\n")
