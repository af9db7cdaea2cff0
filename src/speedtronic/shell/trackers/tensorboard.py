"""TensorBoard: event files in the ``tensorboard`` folder of the run.

After a resume the new event file tells readers to forget the steps that are computed
again (TensorBoard's ``purge_step``), so each step is shown once.
"""

import json
from collections.abc import Mapping
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from speedtronic.pure.metrics import StepRecord, scalars
from speedtronic.shell.hooks import RunInfo
from speedtronic.shell.trackers.kept import deliver, delivered

NAME = "tensorboard"


class Tracker:
    """A `Hook` that writes event files."""

    def __init__(self) -> None:
        self._info: RunInfo | None = None
        self._writer: SummaryWriter | None = None

    def on_start(self, info: RunInfo) -> None:
        """Open an event file, and fill in what an earlier attempt did not deliver."""
        have = delivered(info, NAME)
        resumed = info.resumed_from is not None
        self._info = info
        self._writer = SummaryWriter(
            str(info.folder / "tensorboard"), purge_step=have + 1 if resumed else None
        )
        if not resumed:
            config = json.dumps(info.config, indent=2)
            self._writer.add_text("config", f"```\n{config}\n```")
        for record in info.history(have):
            self.on_record(record)

    def on_record(self, record: StepRecord) -> None:
        """Write one value per scalar, on the disk when this returns."""
        assert self._writer is not None and self._info is not None
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, record.step, walltime=record.time)
        self._writer.flush()
        deliver(self._info, NAME, record.step)

    def on_end(self, summary: Mapping[str, Any], error: str | None) -> None:
        """Nothing: event files hold scalars."""

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
