"""Where a run and the token stores beside it live, from the config alone."""

from pathlib import Path

from speedtronic.pure.config import Config


def run_folder(config: Config) -> Path:
    """The folder of a run.

    >>> run_folder(Config()).as_posix()
    'runs/speedtronic-run'
    """
    return Path(config.run.output_dir) / config.run.name


def token_folder(config: Config) -> Path:
    """The folder of token stores, shared by the runs beside it.

    >>> token_folder(Config()).as_posix()
    'runs/.tokens'
    """
    return Path(config.data.cache_dir or Path(config.run.output_dir) / ".tokens")
