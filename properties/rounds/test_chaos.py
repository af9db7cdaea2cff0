"""Four real processes over a folder, killed again and again: what is left is whole."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.files import read_header
from speedtronic.shell.distributed.replay import replay
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.base import Lane

KILLS = 30
SOAK_KILLS = 300


def kept(lane: Lane, folder: Path) -> dict[str, list[tuple[int, int]]]:
    """For each stream its counted deltas, as (inner steps, data cursor), in order."""
    head = lane.head()
    assert head is not None
    found = defaultdict(list)
    for name in lane.names(names.ROUNDS, head):
        if name.endswith("/manifest.json"):
            round = names.kept_round(name)
            told = manifests.parse(lane.read(name, head))
            assert round == told.round
            for delta in told.accepted:
                lane.fetch(delta.kept(round), head, folder / "delta")
                with open_delta(folder / "delta") as file:
                    header = read_header(file)
                work = header.seq, header.inner_steps, header.cursor
                found[header.stream].append(work)
    return {s: [w[1:] for w in sorted(works)] for s, works in found.items()}


@pytest.mark.timeout(0)
def test_a_run_survives_its_nodes(tmp_path: Path) -> None:
    """Leaders are killed among them; every round verifies, all work counts once."""
    soak = settings.get_current_profile_name() == "soak"
    kills = SOAK_KILLS if soak else KILLS
    program = [sys.executable, "-m", "properties.rounds.chaos"]
    done = subprocess.run(
        [*program, str(tmp_path), str(kills), "1"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )
    told = json.loads(done.stdout)
    assert Counter({0: 4}) == Counter(told["ends"].values()), told
    assert 0 == told["waiting"]
    assert 0 < told["leaders_killed"]
    assert 0 < told["epoch"]  # others took over

    lane = parse_lane(f"dir:{tmp_path / 'lane'}")
    replayed = replay(lane)
    assert [] == [r.problem for r in replayed.rounds if r.problem]
    assert told["round"] == replayed.rounds[-1].round == len(replayed.rounds) - 1
    assert all(report.verified for report in replayed.rounds)

    streams = kept(lane, tmp_path)
    assert 4 == len(streams)  # a restored checkpoint goes on with its node's stream
    for works in streams.values():
        # No data was counted twice and none was left out: what counted is all steps
        # up to the cursor of the last delta, which is where the node's data goes on.
        assert works[-1][1] == sum(steps for steps, _ in works)
