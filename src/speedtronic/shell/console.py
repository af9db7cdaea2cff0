"""What a command says: results on stdout, mistakes on stderr, tokens on neither."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from speedtronic.shell.redact import redact


def say(text: str, *, end: str = "\n") -> None:
    """Write readable text to stdout at once."""
    print(redact(text), end=end, flush=True)


def answer(fields: Mapping[str, Any]) -> None:
    """Write the one JSON object that a command with ``--json`` puts on stdout."""
    from speedtronic.pure.strict_json import to_json

    print(redact(to_json(fields)), flush=True)


def note(text: str) -> None:
    """Write readable text to stderr, where it does not mix with a result."""
    print(redact(text), file=sys.stderr, flush=True)


def complain(problems: Sequence[str]) -> None:
    """Write one ``error:`` line to stderr for each problem."""
    for problem in problems:
        note("error: " + " ".join(problem.split("\n")))
