"""Trackio: the local database that ``trackio show`` displays.

The records go through Trackio's storage and not through ``trackio.init``, which prints
to standard output, looks up the user's name over the network where a Hub token is
configured, and finds a run to resume by name alone: two runs with one node name would
become one. Nothing leaves the machine; ``trackio sync`` sends a project on demand.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from trackio.sqlite_storage import SQLiteStorage

from speedtronic.pure.metrics import StepRecord, scalars
from speedtronic.shell.hooks import RunInfo
from speedtronic.shell.trackers.kept import run_id

NAME = "trackio"
BATCH = 1000  # records per transaction when a history is filled in


class Tracker:
    """A `Hook` that keeps one Trackio run per node, grouped by run."""

    def __init__(self) -> None:
        self._project = ""
        self._node = ""
        self._id = ""
        self._config: dict[str, Any] | None = None

    def on_start(self, info: RunInfo) -> None:
        """Remove the steps that are computed again, fill in those that are missing."""
        self._project, self._node = info.project, info.node
        self._id = run_id(info, NAME)
        have = 0 if info.resumed_from is None else self._trim(info.resumed_from)
        if not have:
            created = datetime.now(timezone.utc).isoformat()
            self._config = dict(info.config) | {
                "_Group": info.run,
                "_Created": created,
            }
        history = info.history(have)
        while batch := list(islice(history, BATCH)):
            self._log(batch)

    def on_record(self, record: StepRecord) -> None:
        """Log the scalars of one step, in the database when this returns."""
        self._log([record])

    def on_end(self, summary: Mapping[str, Any], error: str | None) -> None:
        """Nothing: Trackio has no state of a run."""

    def close(self) -> None:
        """Nothing is held open."""

    def _log(self, records: Sequence[StepRecord]) -> None:
        SQLiteStorage.bulk_log(
            self._project,
            self._node,
            [scalars(record) for record in records],
            steps=[record.step for record in records],
            timestamps=[_iso(record.time) for record in records],
            config=self._config,  # goes in with the first record
            run_id=self._id,
        )
        self._config = None

    def _trim(self, step: int) -> int:
        """Remove what is past ``step``; the last step that is left."""
        database = SQLiteStorage.init_db(self._project)
        with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
            connection.execute(
                "DELETE FROM metrics WHERE run_id = ? AND step > ?", (self._id, step)
            )
        last = SQLiteStorage.get_max_step_for_run(self._project, run_id=self._id)
        return int(last or 0)


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time, timezone.utc).isoformat()
