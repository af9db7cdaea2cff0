"""Trackio shows each step once, in one run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

READ = """
import json, trackio
from trackio.sqlite_storage import SQLiteStorage
(run,) = trackio.Api().runs("project-c")
logs = SQLiteStorage.get_logs("project-c", run_id=run.id)
print(json.dumps({"name": run.name, "id": run.id, "config": run.config, "logs": logs}))
"""


def read(tmp_path: Path) -> Any:
    """What Trackio's own reader says; its folder is fixed at import, so elsewhere."""
    environment = os.environ | {"TRACKIO_DIR": str(tmp_path / "trackio")}
    command = [sys.executable, "-c", READ]
    return json.loads(subprocess.check_output(command, env=environment, text=True))


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "delivered"])
def test_each_step_is_shown_once_after_a_resume(
    kill: bool, attempt: Callable[..., str], tmp_path: Path
) -> None:
    """Logged to 8, resumed from 5, in the same Trackio run; nothing is printed."""
    said = attempt("trackio", 0, 8, kill=kill)
    kept = tmp_path / "run" / "trackio" / "speedtronic.id"
    identity = kept.read_text() if kept.exists() else None
    said += attempt("trackio", 5, 10)
    found = read(tmp_path)

    assert list(range(1, 11)) == [log["step"] for log in found["logs"]]
    assert [11.0, 12.0, 13.0, 15.0, *range(26, 31)] == [
        log["train/loss"] for log in found["logs"] if log["step"] != 4
    ]
    assert identity in (None, found["id"])
    assert kill or "" == said


def test_group_is_the_run_and_name_is_the_node(
    attempt: Callable[..., str], tmp_path: Path
) -> None:
    """Two runs with one node name stay two; no secret is stored."""
    attempt("trackio", 0, 1)
    found = read(tmp_path)
    config = found["config"]

    assert ("node-b", "run-a", {"lr": 1e-3}, "***") == (
        found["name"],
        config["_Group"],
        config["optimizer"],
        config["token"],
    )
