"""What a tracker remembers across the attempts of a run, in small files.

They live in the run's folder, in one named like the tracker. A run that is not resumed
starts without memory.
"""

import logging
import os
import uuid
from pathlib import Path

from speedtronic.shell.hooks import RunInfo
from speedtronic.shell.modes import make_folder, open_text

logger = logging.getLogger(__name__)


def run_id(info: RunInfo, tracker: str) -> str:
    """The id under which a tracker knows this run: the same after a resume."""
    file = _file(info, tracker, "id")
    if info.resumed_from is not None:
        if file.exists():
            return file.read_text("ascii")
        logger.warning("%s: not found, %s shows this as a new run", file, tracker)
    new = uuid.uuid4().hex
    _write(file, new)
    return new


def delivered(info: RunInfo, tracker: str) -> int:
    """The last step that a tracker has for certain; no later than the checkpoint."""
    file = _file(info, tracker, "step")
    if info.resumed_from is None or not file.exists():
        return 0
    text = file.read_text("ascii")
    return min(info.resumed_from, int(text)) if text.isdigit() else 0


def deliver(info: RunInfo, tracker: str, step: int) -> None:
    """Remember that a tracker has everything up to ``step``."""
    _write(_file(info, tracker, "step"), str(step))


def _file(info: RunInfo, tracker: str, what: str) -> Path:
    return info.folder / tracker / f"speedtronic.{what}"


def _write(file: Path, text: str) -> None:
    """Replace the file in one step.

    It is not synced: this happens per record, and a file that a power failure emptied
    only makes the tracker be filled again.
    """
    make_folder(file.parent)
    temporary = file.with_name(f"{file.name}.new")
    with open_text(temporary, "w") as opened:
        opened.write(text)
    os.replace(temporary, file)
