"""A run that dies at every step has the bits of one that never stopped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.shell.killed_run import config

from speedtronic.shell import checkpoint_writer
from speedtronic.shell.checkpoint_folder import find
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.rundir import RunDirectory
from speedtronic.shell.train import train

ROOT = Path(__file__).parents[2]


def both(folder: Path, variant: str, steps: int) -> Any:
    """What `killed_run` tells."""
    script = (sys.executable, "-m", "tests.shell.killed_run")
    done = subprocess.run(
        [*script, variant, str(steps), str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
    )
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["fp32", "bf16", "fp16", "drawing", "compiled"])
def test_killed_and_resumed_is_never_stopped(tmp_path: Path, variant: str) -> None:
    """Real processes, SIGKILL in the middle of saving a step and after it."""
    steps = 20
    told = both(tmp_path, variant, steps)
    kills = steps if variant == "compiled" else 2 * steps

    assert [0, *[-9] * kills, 0] == told["codes"]
    assert told["saved"]["whole"] == told["saved"]["cut"]
    assert sorted(told["saved"]["cut"]) == told["left"]
    assert told["logged"]["whole"] == told["logged"]["cut"]
    assert list(range(1, steps + 1)) == [step for step, *_ in told["logged"]["cut"]]
    # Each step differs from the one before, or equal sums would say nothing.
    sums = [json.dumps(files) for files in told["saved"]["whole"].values()]
    assert steps == len(set(sums))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_during_a_save_lets_it_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    """Then the last finished step is saved, too, and the run is not called finished."""
    monkeypatch.chdir(tmp_path)
    real = checkpoint_writer.save

    def save(folder: Path, snapshot: Any, **how: Any) -> Path:
        if snapshot.step == 3:
            os.kill(os.getpid(), number)
        return real(folder, snapshot)

    monkeypatch.setattr(checkpoint_writer, "save", save)
    plain = config("run", "fp32", steps=500)
    told = train(config_from_dict(plain))

    assert (code, True) == (told.exit_code, 3 <= told.steps < 500)
    checkpoints = tmp_path / "runs/run/checkpoints"
    assert find(checkpoints).path == checkpoints / f"step-{told.steps:08d}"
    assert all(path.name.startswith("step-") for path in checkpoints.iterdir())
    with RunDirectory.open(Path("runs/run"), "resume", config_from_dict(plain)) as run:
        assert run.finished_step is None
