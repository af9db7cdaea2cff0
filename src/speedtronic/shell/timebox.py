"""Runs bounded in minutes: the clock enters a step as a recorded number.

The share of the time that has passed drives the schedule, so that a run ends properly
whenever its time is up. Each step's share is appended to ``progress.f32`` in the run
folder, four bytes a step, so that the run can be repeated exactly without a clock.
"""

import struct
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from speedtronic.shell.atomic import explained
from speedtronic.shell.modes import make_file

FILE = "progress.f32"
_SIZE = 4


class TimeBox:
    """The share of a run's time that has passed, read once per step and recorded.

    Args:
        minutes: of the whole run, earlier attempts included.
        path: of the record.
        position: steps that are done; later entries of the record are dropped.
        spent_s: seconds of the run's time that these steps took.
        clock: seconds from any origin, never going back.
    """

    def __init__(
        self,
        minutes: float,
        path: Path,
        position: int,
        spent_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = 60 * minutes
        self._clock = clock
        with explained(path):
            make_file(path)
            self._file = path.open("r+b")
            self._file.truncate(position * _SIZE)
            self._file.seek(0, 2)
        # Not from the last share: the run may have been given other minutes since.
        self.spent_s = spent_s
        self._origin = clock() - spent_s
        self.share = min(1.0, spent_s / self._seconds)

    @property
    def over(self) -> bool:
        """Whether the time is up: the last step took the share 1."""
        return self.share >= 1.0

    def read(self, device: torch.device) -> Tensor:
        """f32[]: the share for the next step."""
        self.spent_s = min(self._seconds, self._clock() - self._origin)
        self.share = self.spent_s / self._seconds
        self._file.write(struct.pack("<f", self.share))
        return torch.tensor(self.share, dtype=torch.float32, device=device)

    def sync(self) -> None:
        """Put the record on the disk, before a checkpoint that counts on it."""
        self._file.flush()

    def close(self) -> None:
        """Close the record."""
        self._file.close()


def recorded(path: Path) -> list[float]:
    """The shares of all steps so far."""
    data = path.read_bytes()
    whole = len(data) // _SIZE
    return list(struct.unpack(f"<{whole}f", data[: whole * _SIZE]))
