"""A bar for the preparation of token stores, on a terminal."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from speedtronic.shell.data import prepare


@contextmanager
def preparing(
    enabled: bool = True, stream: TextIO | None = None
) -> Iterator[prepare.Progress]:
    """What to pass to `open_data` as ``progress``: a bar for each source.

    Where the stream is no terminal nothing is shown. The bars are erased at the end.

    Args:
        enabled: False for quiet runs and for ``--json``.
        stream: where the bars go, the error stream by default.
    """
    stream = sys.stderr if stream is None else stream
    simple = os.environ.get("TERM") in ("dumb", "unknown")
    if not enabled or simple or not stream.isatty():
        yield prepare.silent
        return
    bars = Progress(
        TextColumn("preparing {task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # a pipe keeps what it is sent
    )
    tasks = {}

    def show(source: str, done: int, total: int) -> None:
        if source not in tasks:
            tasks[source] = bars.add_task(os.path.basename(source) or source)
        bars.update(tasks[source], completed=done, total=max(done, total))

    with bars:
        yield show
