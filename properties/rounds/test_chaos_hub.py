"""Four real processes over an emulated Hub that fails now and then, and killed."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

KILLS = 8
SOAK_KILLS = 100
FAULTS = "0.03"  # of all requests, drawn from every kind that passes by itself


@pytest.mark.timeout(0)
def test_a_run_survives_its_nodes_and_the_hub(tmp_path: Path) -> None:
    """The run comes to its end, and replay verifies it from the repository alone."""
    soak = settings.get_current_profile_name() == "soak"
    kills = str(SOAK_KILLS if soak else KILLS)
    program = [sys.executable, "-m", "properties.rounds.chaos"]
    done = subprocess.run(
        [*program, str(tmp_path), kills, "1", FAULTS],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )
    told = json.loads(done.stdout)
    assert Counter({0: 4}) == Counter(told["ends"].values()), told
    assert [] == told["replayed"]["problems"]
    assert 0 < told["round"] == told["replayed"]["rounds"]
    assert 0 == told["waiting"]
