"""Several nodes of one run as real processes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from speedtronic.errors import ConfigError, RunError
from speedtronic.shell.config import load_config
from speedtronic.shell.data.prepare import silent
from speedtronic.shell.distributed.replay import replay
from speedtronic.shell.distributed.report import read_report
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.swarm import Swarm
from speedtronic.shell.swarm_prepare import make_ready
from speedtronic.shell.swarm_table import table

TINY: dict[str, Any] = {
    "run": {"name": "tiny", "max_steps": 30, "device": "cpu", "threads": 1},
    "model": {
        "n_layer": 1,
        "d_model": 16,
        "n_head": 2,
        "max_seq_len": 8,
        "vocab_size": 32,
    },
    "data": {
        "num_tokens": 4000,
        "block_size": 8,
        "vocab_size": 32,
        "micro_batch_size": 2,
        "target_batch_size": 4,
        "validation_fraction": 0.1,
    },
    "precision": {"mode": "fp32"},
    "distributed": {"inner_steps": 10},
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config file in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    return path


def swarm(config: Path, nodes: int, *overrides: str) -> Swarm:
    """Not started."""
    return Swarm(load_config(config, overrides), config, overrides, nodes)


def command(*arguments: str) -> "subprocess.Popen[str]":
    """The real command, in the current folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "speedtronic", "swarm", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_nodes_of_different_precision_and_batch_train_one_run(config: Path) -> None:
    """A float32 node and a bf16 node of another batch size agree on every round."""
    lane = f"dir:{config.parent / 'lane'}"
    parse_lane(lane, create=True)
    shared = swarm(config, 2, f"distributed.lane={lane}")
    own = {
        "node-0": ["precision.mode=fp32"],
        "node-1": ["precision.mode=bf16", "data.target_batch_size=6"],
    }
    running = []
    for name, more in own.items():
        arguments = ["train", "--config", str(config)]
        for text in [*shared.overrides(name), *more]:
            arguments += ["--set", text]
        program = [sys.executable, "-m", "speedtronic", *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        running.append(subprocess.Popen(program, env=environment))
    assert [0, 0] == [process.wait() for process in running]
    replayed = replay(parse_lane(lane))
    assert replayed.ok
    assert {"node-0", "node-1"} == {
        json.loads(line)["node"]
        for line in [
            (config.parent / "runs/tiny" / name / "summary.json").read_text()
            for name in own
        ]
    }
    # 30 steps of 4 rows and 30 of 6 rows, of 8 targets each: all of it was counted.
    assert 30 * 8 * (4 + 6) == sum(r.tokens for r in replayed.rounds)


def test_a_swarm_ends_with_the_loss_of_the_global_model(config: Path) -> None:
    """And goes on from where it was, with another end."""
    first = command("--config", str(config), "--nodes", "2", "--json")
    told = json.loads(first.communicate()[0])
    assert (0, {"node-0": 0, "node-1": 0}) == (told["exit_code"], told["nodes"])
    assert 0 < told["validation_loss"] < 10
    again = command("--config", str(config), "--nodes", "2")
    assert "--resume continues it" in again.communicate()[1]
    assert 2 == again.returncode
    more = ["--resume", "--max-steps", "40", "--json"]
    last = command("--config", str(config), "--nodes", "2", *more)
    told_last = json.loads(last.communicate()[0])
    assert told["round"] < told_last["round"]
    assert replay(parse_lane(told["lane"])).ok


def test_a_signal_reaches_every_node_once(config: Path) -> None:
    """All save, and the swarm ends with the signal's code."""
    process = command("--config", str(config), "--nodes", "2", "--max-steps", "9999999")
    assert process.stdout is not None
    for line in process.stdout:  # until both have trained; a look may miss a round
        if line.startswith("round ") and not line.startswith("round 0:"):
            break
    else:
        pytest.fail("the swarm ended by itself")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert 143 == process.returncode
    for name in ("node-0", "node-1"):
        folder = config.parent / "runs/tiny" / name
        assert (
            "interrupted" == json.loads((folder / "summary.json").read_text())["status"]
        )
        assert (told := read_report(folder)) is not None
        assert "stopped" == told.state


def test_a_node_that_ends_badly_is_told(
    config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With its log; the others go on."""
    from speedtronic.shell.interrupt import Interrupt

    nodes = swarm(config, 2)
    make_ready(nodes, config, resume=False, overwrite=False, preparing=silent)
    killed: list[int] = []

    def show(statuses: Any) -> None:
        told = {s.node: s.report for s in statuses}
        victim = nodes._processes["node-1"]
        if not killed and told["node-1"] and told["node-1"].base_round >= 0:
            killed.append(victim.pid)
            victim.kill()

    result = nodes.run(Interrupt(), show)
    assert 1 == result.exit_code
    [problem] = result.problems
    assert problem.startswith("node-1: killed by signal 9, see ")
    assert 0 == result.nodes[0].exit_code


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["model.n_head=3"], "n_head"),
        (["data.text_path=none.txt"], "none.txt"),
        (["distributed.lane=ftp:x"], "ftp:x"),
    ],
    ids=["config", "data", "lane"],
)
def test_what_no_node_could_start_with_is_refused(
    config: Path, overrides: list[str], told: str
) -> None:
    """Before any of them is started."""
    with pytest.raises((ConfigError, RunError, Exception), match=told):
        make_ready(
            swarm(config, 2, *overrides),
            config,
            resume=False,
            overwrite=False,
            preparing=silent,
        )


def test_the_table_has_a_row_per_node(config: Path) -> None:
    """Also before anything is known of them."""
    found = table(swarm(config, 3).status(), 30)
    assert (3, 8) == (found.row_count, len(found.columns))
