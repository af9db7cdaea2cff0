"""``speedtronic plan``."""

import json
import os
from pathlib import Path

import pytest

from speedtronic.__main__ import main
from speedtronic.shell import measure
from speedtronic.shell.lanes import parse_lane
from speedtronic.testing.runs import recorded_run

TINY = """
run: {name: tiny, max_steps: 1000, device: cpu, threads: 1}
model: {n_layer: 1, d_model: 16, n_head: 2, max_seq_len: 8, vocab_size: 32}
data: {num_tokens: 500, target_batch_size: 2}
distributed: {enabled: true, role: master, lane: "dir:lane", inner_steps: 100}
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measure, "ENOUGH_S", 0.0)
    Path("c.yaml").write_text(TINY)


def planned(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, str]:
    """What is printed, on stdout and on stderr."""
    assert 0 == main(["plan", "--config", "c.yaml", "--nodes", "4", *more])
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_a_person_reads_a_table_and_advice(capsys: pytest.CaptureFixture[str]) -> None:
    """What is assumed is said."""
    out, err = planned(capsys, "--price", "2.5")
    titles = [line[:12].strip() for line in out.splitlines()]

    assert titles == [
        "a step",
        "memory",
        "the run",
        "to the end",
        "a link",
        "a delta",
        "a worker",
        "the leader",
        "commits",
        "lost",
        "money",
    ]
    assert "16 tokens on cpu, fp32 (median of 3)" in out
    assert "4 nodes, 1,000 steps each, 10 rounds of" in out
    assert "100 Mbit/s, assumed: nothing on the lane to measure it by" in out
    assert err.startswith("advice: distributed.inner_steps: ")
    assert ["c.yaml"] == [name for name in os.listdir() if name != "runs"]


def test_a_script_reads_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, with what they follow from."""
    told = json.loads(planned(capsys, "--bandwidth", "8", "--json")[0])

    assert (True, "as given") == (told["ok"], told["bandwidth"])
    assert 8e6 == told["fleet"]["bits_per_s"]
    machine, plan = told["measured"]["machine"], told["plan"]
    assert machine["delta_bytes"] / 1e6 == pytest.approx(plan["upload_s"])
    assert 1000 * machine["step_s"] / 3600 == pytest.approx(plan["hours"])
    assert plan["money"] is None and told["fleet"]["budget"] is None


def test_the_hub_rations_commits(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is asked of it when the bandwidth is given."""
    hub = ["--set", "distributed.lane=null", "--set", "distributed.repo_id=me/run"]
    out, err = planned(capsys, "--bandwidth", "100", *hub)

    assert " of 128 an hour" in out
    assert "100 deltas come too often for the links or the lane" in err


def test_a_lane_with_a_run_tells_the_bandwidth(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By fetching its model."""
    recorded_run(parse_lane("dir:lane", create=True), rounds=1)
    out, _ = planned(capsys)

    assert "Mbit/s, as the model was fetched from dir:lane" in out


def test_a_slow_link_makes_deltas_stale(capsys: pytest.CaptureFixture[str]) -> None:
    """The bound that would do is told."""
    _, err = planned(capsys, "--bandwidth", "0.0001")

    assert "distributed.staleness: 8 is too little for uploads of" in err


def test_a_run_bounded_in_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    """Takes them."""
    told = json.loads(planned(capsys, "--set", "run.max_minutes=6", "--json")[0])

    assert 0.1 == pytest.approx(told["plan"]["hours"], rel=0.01)


def test_every_wrong_number_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the config is read."""
    wrong = ["--nodes", "0", "--price", "-1", "--bandwidth", "nan"]
    assert 2 == main(["plan", "--config", "nowhere", *wrong])

    assert ["--nodes", "--price", "--bandwidth"] == [
        line.removeprefix("error: ").partition(":")[0]
        for line in capsys.readouterr().err.splitlines()
    ]
