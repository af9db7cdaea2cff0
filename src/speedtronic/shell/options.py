"""Command lines to frozen dataclasses, by argparse-dataclass and a few rules on top.

An options class is a flat frozen stdlib dataclass whose fields come from `option`,
`flag`, `repeated` and `positional`. On top of what argparse-dataclass 2.0 does:

- every flag has ``--x`` and ``--no-x``, whatever its default;
- an option marked `repeated` keeps all its occurrences, not the last;
- a name must be written in full, and an unknown one is answered with the nearest;
- a mistake is a `UsageError`, not the end of the process.

Deliberately absent: defaults that repeat the config's. An option that is not given is
None (or a false flag) and leaves the config file alone.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import argparse_dataclass

from speedtronic.errors import ConfigError

T = TypeVar("T")


class UsageError(ConfigError):
    """A command line that cannot be used; ``usage`` says how it could be."""

    def __init__(self, problem: str, usage: str) -> None:
        super().__init__(problem)
        self.usage = usage


def option(
    help: str,
    *,
    default: Any = dataclasses.MISSING,
    metavar: str,
    kind: Any = str,
    name: str | None = None,
) -> Any:
    """An option with a value; required unless it has a default.

    ``name`` is for a flag that cannot be the name of a field, such as ``--from``.
    """
    metadata = {"help": help, "metavar": metavar, "type": kind}
    named = {"args": [name]} if name else {}
    return dataclasses.field(default=default, metadata={**metadata, **named})


def choice(help: str, choices: Sequence[str], *, default: str) -> Any:
    """An option with a value from a list."""
    metadata = {"help": help, "choices": list(choices), "type": str}
    return dataclasses.field(default=default, metadata=metadata)


def optional_value(help: str, *, metavar: str) -> Any:
    """An option whose value may be left out, which means ``auto``; None if absent."""
    metadata = {"help": help, "metavar": metavar, "type": str, "nargs": "?"}
    return dataclasses.field(default=None, metadata=metadata)


def repeated(help: str, *, name: str, metavar: str) -> Any:
    """An option that may be given several times; a sequence in the order given."""
    metadata = {"help": help, "metavar": metavar, "args": [name], "type": str}
    return dataclasses.field(default=(), metadata={**metadata, "nargs": 1})


def positional(help: str, *, name: str) -> Any:
    """An argument without a dash in front, required."""
    return dataclasses.field(metadata={"help": help, "args": [name]})


def flag(help: str) -> Any:
    """An option without a value, off unless given."""
    return dataclasses.field(default=False, metadata={"help": help})


class _Parser(argparse_dataclass.ArgumentParser):  # type: ignore[misc]
    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        if settings.get("action") == "store_true":
            settings["action"] = argparse.BooleanOptionalAction
        if settings.get("nargs") == 1:
            settings.update(action="extend", default=argparse.SUPPRESS)
        if settings.get("nargs") == "?":
            settings["const"] = "auto"
        help_text = settings.pop("help", None)
        action: argparse.Action = super().add_argument(*names, **settings)
        action.help = help_text  # set late, or the default is printed behind it
        return action

    def error(self, message: str) -> Any:
        raise UsageError(message, self.format_usage())


def parse(options: type[T], command: str, summary: str, arguments: Sequence[str]) -> T:
    """Read a command's options.

    Args:
        options: a flat frozen stdlib dataclass.
        command: its name, for the usage line.
        summary: what it does, in one line, for ``--help``.
        arguments: what follows the command's name.

    Raises:
        UsageError: an unknown option, a missing or a wrong value.
        SystemExit: after ``--help``, with code 0.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Options:
    ...     set: Sequence[str] = repeated("set a field", name="--set", metavar="X")
    ...     quiet: bool = flag("say less")
    >>> parse(Options, "train", "", ["--set", "a=1", "--quiet", "--set", "b=2"])
    Options(set=['a=1', 'b=2'], quiet=True)
    >>> parse(Options, "train", "", ["--quiot"])
    Traceback (most recent call last):
    speedtronic.shell.options.UsageError: unknown argument --quiot; did you mean
    --quiet?
    """
    parser = _Parser(
        options, prog=f"speedtronic {command}", description=summary, allow_abbrev=False
    )
    parsed, rest = parser.parse_known_args(list(arguments))
    if rest:
        parser.error("; ".join(_unknown(word, flags(options)) for word in rest))
    done: T = parsed
    return done


def flags(options: Any) -> list[str]:
    """Every option and argument of a command, as it is typed.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Options:
    ...     run: str = positional("a run", name="run")
    ...     max_tokens: int = option("how many", default=1, metavar="N", kind=int)
    ...     json: bool = flag("print JSON")
    >>> flags(Options)
    ['run', '--max-tokens', '--json', '--no-json']
    """
    names: list[str] = []
    for field in dataclasses.fields(options):
        plain = "--" + field.name.replace("_", "-")
        names += field.metadata.get("args", [plain])
        names += ["--no-" + plain[2:]] if field.type is bool else []
    return names


def _unknown(word: str, known: Sequence[str]) -> str:
    from speedtronic.shell.config_names import nearest

    name = word.partition("=")[0]
    near = nearest(name, [k for k in known if k.startswith("--")])
    hint = f"; did you mean {near}?" if near and word.startswith("-") else ""
    return f"unknown argument {name}{hint}"
