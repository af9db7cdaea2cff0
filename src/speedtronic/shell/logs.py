"""Log lines of the command line: to the terminal, and to a file if asked.

Access tokens are taken out of all of them.

Only the logger named ``speedtronic`` is touched, so a program that uses the library
keeps its own logging; without this set-up Python shows warnings and errors.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speedtronic.shell.atomic import explained
from speedtronic.shell.modes import make_file, make_folder
from speedtronic.shell.redact import redact

LOGGER = "speedtronic"
DATED = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@contextmanager
def logging_to(level: str, file: Path | None = None) -> Iterator[None]:
    """Show log lines of ``level`` and above, until the end of the ``with`` block.

    Args:
        level: DEBUG, INFO, WARNING, ERROR or CRITICAL.
        file: also append them there, with the time; missing folders are made.

    Raises:
        StorageError: if the file cannot be written.
    """
    handlers: list[logging.Handler] = [_Terminal()]
    handlers[0].setFormatter(_Plain())
    if file is not None:
        with explained(file):
            make_folder(file.parent)
            make_file(file)
            handlers.append(logging.FileHandler(file, encoding="utf-8"))
        handlers[1].setFormatter(_Redacting(DATED))
    logger = logging.getLogger(LOGGER)
    before = (logger.level, logger.propagate)
    logger.setLevel(level)
    logger.propagate = False
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _Terminal(logging.Handler):
    """Writes to whatever ``sys.stderr`` is at the time.

    A progress bar replaces it with one that prints above the bar.
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # a closed terminal, a broken pipe: logging's own rule
            self.handleError(record)


class _Redacting(logging.Formatter):
    """Access tokens are taken out of every line."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class _Plain(_Redacting):
    """The message alone, after its level if that is more than information."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if record.levelno < logging.WARNING:
            return text
        return f"{record.levelname.lower()}: {text}"
