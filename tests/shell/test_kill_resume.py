"""A run that dies at every step has the bits of one that never stopped."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
