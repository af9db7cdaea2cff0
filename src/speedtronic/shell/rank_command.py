"""``speedtronic train`` as one of several ranks of a node."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from speedtronic.errors import SpeedtronicError, UserError
from speedtronic.pure.config import Config
from speedtronic.shell.console import complain
from speedtronic.shell.logs import logging_to
from speedtronic.shell.rank_place import Place
from speedtronic.shell.train import train


def train_along(
    config: Config, place: Place, *, resume: str | None, overwrite: bool
) -> int:
    """Train as a rank after the first, say only what fails; the exit code.

    Args:
        config: of the run.
        place: of this process.
        resume: as `train` takes it.
        overwrite: as `train` takes it.
    """
    aside = redirect_stdout(sys.stderr)
    try:
        with aside, logging_to("ERROR", None), own_exit_code(place):
            return train(config, resume=resume, overwrite=overwrite).exit_code
    except SpeedtronicError as error:
        lines = error.problems if isinstance(error, UserError) else [str(error)]
        complain([f"rank {place.rank}: {line}" for line in lines])
        return error.exit_code


@contextmanager
def own_exit_code(place: Place) -> Iterator[None]:
    """Let the process end by itself after what is inside, which ends all ranks.

    A launcher sends SIGTERM to the others as soon as one has ended with another code
    than 0; the run is over by then, and so is what the signal could be good for.
    """
    try:
        yield
    finally:
        if place.ranks > 1:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
