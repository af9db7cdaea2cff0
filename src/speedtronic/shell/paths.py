"""Where a run and the token stores beside it live, and whether that can be written."""

import tempfile
from pathlib import Path

from speedtronic.pure.config import Config

METRICS = "metrics.jsonl"  # in the run folder


def run_folder(config: Config) -> Path:
    """The folder of a run.

    >>> run_folder(Config()).as_posix()
    'runs/speedtronic-run'
    """
    return Path(config.run.output_dir) / config.run.name


def metrics_file(config: Config) -> Path:
    """The metrics file of a run.

    >>> metrics_file(Config()).as_posix()
    'runs/speedtronic-run/metrics.jsonl'
    """
    return Path(config.logging.json_file or run_folder(config) / METRICS)


def token_folder(config: Config) -> Path:
    """The folder of token stores, shared by the runs beside it.

    >>> token_folder(Config()).as_posix()
    'runs/.tokens'
    """
    return Path(config.data.cache_dir or Path(config.run.output_dir) / ".tokens")


def why_not_writable(path: Path) -> str | None:
    """Why a folder cannot be made or written to; None if it can.

    Nothing is left behind, not even the folder.

    >>> why_not_writable(Path("."))
    >>> why_not_writable(Path("/dev/null/runs"))
    '/dev/null is not a folder'
    """
    there = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    if not there.is_dir():
        return f"{there} is not a folder"
    try:
        with tempfile.NamedTemporaryFile(dir=there):
            return None
    except OSError as error:
        return f"{there} cannot be written: {error.strerror or error}"
