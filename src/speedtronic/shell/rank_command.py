"""``speedtronic train`` in a rank after the first, which alone tells of the run."""

import sys
from contextlib import redirect_stdout

from speedtronic.errors import SpeedtronicError, UserError
from speedtronic.pure.config import Config
from speedtronic.shell.console import complain
from speedtronic.shell.logs import logging_to
from speedtronic.shell.train import train


def train_along(
    config: Config, rank: int, *, resume: str | None, overwrite: bool
) -> int:
    """Train as a rank after the first, say only what fails; the exit code.

    Args:
        config: of the run.
        rank: of this process, for its errors.
        resume: as `train` takes it.
        overwrite: as `train` takes it.
    """
    try:
        with redirect_stdout(sys.stderr), logging_to("ERROR", None):
            return train(config, resume=resume, overwrite=overwrite).exit_code
    except SpeedtronicError as error:
        lines = error.problems if isinstance(error, UserError) else [str(error)]
        complain([f"rank {rank}: {line}" for line in lines])
        return error.exit_code
