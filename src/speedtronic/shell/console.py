"""What a command says: results on stdout, mistakes on stderr, tokens on neither."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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


def size(count: int) -> str:
    """A number of bytes as a person reads it.

    >>> size(999), size(1_250_000), size(3_000_000_000_000)
    ('999 B', '1.2 MB', '3,000.0 GB')
    """
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= least:
            return f"{count / least:,.1f} {unit}"
    return f"{count} B"


@contextmanager
def preparation(shown: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """A progress report of long preparations: a bar on a terminal, else lines.

    Args:
        shown: False for lines in any case.
    """
    from speedtronic.shell.progress import PreparationBar, takes_bars

    if not shown or not takes_bars(sys.stderr):
        yield tenths()
        return
    bar = PreparationBar(sys.stderr)
    try:
        yield bar
    finally:
        bar.close()


def tenths(
    least: int = 2**26, tell: Callable[[str], object] = note
) -> Callable[[str, int, int], None]:
    """A progress report that notes each tenth of a long preparation.

    Args:
        least: bytes; what is shorter is done before anybody wonders.
        tell: what to do with a line.

    >>> import contextlib, io
    >>> shown, report = io.StringIO(), tenths(least=100)
    >>> with contextlib.redirect_stderr(shown):
    ...     for done in (50, 55, 100):
    ...         report("a.txt", done, 100)
    >>> shown.getvalue()
    'a.txt: 50 %\\na.txt: 100 %\\n'
    """
    told: dict[str, int] = {}

    def report(source: str, done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        if total >= least and tenth > told.get(source, 0):
            told[source] = tenth
            tell(f"{source}: {10 * tenth} %")

    return report
