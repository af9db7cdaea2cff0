"""A config file and its overrides to a `Config`, and a `Config` back to a file.

The steps each have their file: text to plain values (``config_file``), short forms to
the full form (``config_shorthand``), plain values to attrs classes
(``config_structure``), rules between fields (``pure.config.checks``). None of them
imports torch.
"""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config, Secret
from speedtronic.pure.config.checks import problems
from speedtronic.pure.config.fields import FIELDS, SECTIONS
from speedtronic.shell.config_file import dump_yaml, parse_yaml, read_mapping
from speedtronic.shell.config_names import shown
from speedtronic.shell.config_shorthand import canonical, expand, says_nothing
from speedtronic.shell.config_structure import found, structure

_TEXT_TYPES = (str, str | None, Secret | None)
_MAX_NAMES = 16  # of a path; beside what a value holds, files nest no deeper
_QUOTES, _NULLS = ("'", '"'), ("null", "Null", "NULL", "~")


def load_config(path: str | PathLike[str], overrides: Iterable[str] = ()) -> Config:
    """Read a YAML or JSON config file, those of Speedtronic 2.0 included.

    Args:
        path: a file in UTF-8; ``.json`` is read as JSON, all else as YAML 1.2.
        overrides: ``PATH=VALUE`` each, applied in order over the file.

    Raises:
        ConfigError: one line per mistake, all that were found.
    """
    return _build(read_mapping(Path(path)), overrides)


def config_from_dict(raw: Mapping[str, Any]) -> Config:
    """A config from plain values, as a file would hold them.

    Raises:
        ConfigError: one line per mistake, all that were found.

    >>> config_from_dict({"max_steps": 10, "optimizer": "muon"}).optimizer.name
    'muon'
    >>> config_from_dict({"optimizer": {"lrr": 0.1}})
    Traceback (most recent call last):
    speedtronic.errors.ConfigError: optimizer.lrr: unknown field; did you mean
    optimizer.lr?
    """
    if not isinstance(raw, Mapping):
        raise ConfigError(f"a config: expected fields, found {found(raw)}")
    return _build(raw, ())


def checked(config: Config) -> Config:
    """A config that was built in Python, held to what a file is held to.

    Raises:
        ConfigError: it is none, a value is not of its field's type, or two of them
            contradict each other; one line per mistake.

    >>> from speedtronic.pure.config import Run
    >>> checked(Config(run=Run(max_steps=1.5)))
    Traceback (most recent call last):
    speedtronic.errors.ConfigError: run.max_steps: expected an integer, found the number
    1.5
    """
    if not isinstance(config, Config):
        raise ConfigError(
            f"expected a Config, found {found(config)}; load_config reads one from a "
            "file"
        )
    return config_from_dict(to_dict(config, reveal=True))


def _build(raw: Mapping[str, Any], overrides: Iterable[str]) -> Config:
    full, told = expand(raw)
    for assignment in overrides:
        try:
            full = _override(full, assignment)
        except ConfigError as error:
            told += error.problems
    config, mistakes = structure(full)
    told += mistakes if config is None else problems(config)
    if config is None or told:
        raise ConfigError(told)
    return config


def apply_override(raw: Mapping[str, Any], assignment: str) -> dict[str, Any]:
    """Plain values with one field replaced, in full form.

    Args:
        raw: plain values as a file holds them; not changed.
        assignment: ``PATH=VALUE``; VALUE is YAML, but for a field that holds text
            all that is not quoted is text, except for ``null``.

    Raises:
        ConfigError: no ``=``, nothing after it (an unset variable of the shell), a
            path through a value that has no fields, bad YAML.

    >>> apply_override({"optimizer": "muon"}, "optimizer.lr=1e-3")
    {'optimizer': {'name': 'muon', 'lr': 0.001}}
    >>> apply_override({}, "run.name=2024")
    {'run': {'name': '2024'}}
    """
    full, told = expand(raw)
    if told:
        raise ConfigError(told)
    return _override(full, assignment)


def _override(full: Mapping[str, Any], assignment: str) -> dict[str, Any]:
    spelled, equals, text = assignment.partition("=")
    given = tuple(spelled.strip().split("."))
    if not equals or not all(given):
        raise ConfigError(
            f"--set: expected PATH=VALUE such as optimizer.lr=1e-3, "
            f"found {spelled + equals!r}"
        )
    if len(given) > _MAX_NAMES:
        raise ConfigError(
            f"--set: expected a path of at most {_MAX_NAMES} names, found {len(given)}"
        )
    where = f"--set {shown(spelled)}"
    value = _value(given, text, where)
    if says_nothing(given, value):
        return dict(full)
    place = canonical(given, value)
    if len(place) == 1 and place[0] in SECTIONS and isinstance(value, dict):
        return _replace_fields(full, given[0], value)
    return _replace(full, place, value, where)


def _replace_fields(
    full: Mapping[str, Any], section: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    replaced = dict(full)
    expanded, told = expand({section: values})
    if told:
        raise ConfigError(told)
    for name, fields in expanded.items():
        before = replaced.get(name)
        replaced[name] = {**(before if isinstance(before, dict) else {}), **fields}
    return replaced


def _replace(
    values: Mapping[str, Any], place: tuple[str, ...], value: Any, where: str
) -> dict[str, Any]:
    first, *rest = place
    if not rest:
        return {**values, first: value}
    inner = values.get(first)
    if inner is not None and not isinstance(inner, Mapping):
        raise ConfigError(f"{where}: {first} has no fields, it is {found(inner)}")
    return {**values, first: _replace(inner or {}, tuple(rest), value, where)}


def _value(path: tuple[str, ...], text: str, where: str) -> Any:
    """The value of an override; text that a field of text keeps as it is."""
    bare = text.strip()
    if not bare:
        raise ConfigError(
            f"{where}: expected a value after =, found nothing; leave it out"
        )
    field = FIELDS.get(".".join(canonical(path, None)))
    holds_text = field is not None and field.type in _TEXT_TYPES
    if holds_text and bare[0] not in _QUOTES and bare not in _NULLS:
        return bare
    try:
        return parse_yaml(text, where)
    except ConfigError:
        if holds_text:
            return bare
        raise


def to_dict(config: Config, *, reveal: bool = False) -> dict[str, Any]:
    """The config as plain values in full form; `config_from_dict` reads them back.

    Args:
        config: any config.
        reveal: give secrets as they are, for the one caller that must pass them on;
            otherwise they read ``***``, which loads as "not given".

    >>> to_dict(Config())["optimizer"]["betas"]
    [0.9, 0.95]
    """

    def plain(_: Any, __: Any, value: Any) -> Any:
        if isinstance(value, Secret):
            return value.reveal() if reveal else repr(value)
        return list(value) if isinstance(value, tuple) else value

    return attrs.asdict(config, value_serializer=plain)


def to_yaml(config: Config, *, reveal: bool = False) -> str:
    """The config as a YAML file in full form; secrets as in `to_dict`.

    >>> to_yaml(Config()).splitlines()[:2]
    ['run:', '  name: speedtronic-run']
    """
    return dump_yaml(to_dict(config, reveal=reveal))
