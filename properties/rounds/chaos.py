"""Four nodes of one run, killed at random moments; run as a script.

Arguments: an empty folder, how many kills, a seed. Prints one JSON object: how often
the leader was killed, how the processes ended at last, and how far the run came. The
lane is a folder; with a fourth argument it is a repository on an emulated Hub, where
that share of all requests meets a fault, and the endpoint is printed, too.

One node begins the run, the others may lead. Every process is a fork of this one, which
computes nothing itself, and ends by SIGKILL: between two system calls, while it trains,
saves, uploads, aggregates or publishes. It is started again at once. When all kills are
done, all nodes are started with an end that they reach, and left alone.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import LaneError
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.distributed.replay import replay
from speedtronic.shell.distributed.report import read_report
from speedtronic.shell.keys import create
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.train import train

NODES = ("node-0", "node-1", "node-2", "node-3")
LAST_STEPS = 40  # of every node, when nobody is killed any more
LEADERS = 0.4  # how often the victim is whoever leads
MOST_COMMITS = 9  # on the lane, between two kills
PATIENCE_S = 20.0  # for them; a kill may have taken away whoever commits
MOMENT_S = 0.02
NO_END = 10**9


@attrs.frozen
class Where:
    """The folder of everything, and the lane."""

    folder: Path
    lane: str

    def head(self) -> str | None:
        """The newest revision; None if the lane does not say."""
        try:
            return parse_lane(self.lane).head()
        except LaneError:
            return None


def config(where: Where, node: str, steps: int) -> dict[str, Any]:
    """A tiny model, short rounds, a short lease."""
    folder, hub = where.folder, where.lane.startswith("hub:")
    return {
        "run": {
            "name": node,
            "output_dir": str(folder),
            "max_steps": steps,
            "device": "cpu",
            "threads": 1,
        },
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
            "target_batch_size": 2,
            "shuffle": True,
            "cache_dir": str(folder / "tokens"),
        },
        "optimizer": {"lr": 0.01},
        "scheduler": {"name": "constant", "warmup_steps": 0},
        "precision": {"mode": "fp32"},
        "checkpoint": {"every_steps": 7, "keep_last": 2},
        "logging": {"every_steps": 5, "level": "INFO"},
        "distributed": {
            "enabled": True,
            "lane": where.lane,
            "trust": "signed",
            "key": str(folder / "keys" / f"{node}.pem"),
            "cache_dir": str(folder / f"{node}-cache"),
            "commits_per_hour": 1e6,
            "role": "master" if node == NODES[0] else "auto",
            "node_id": node,
            "collaborators": [other for other in NODES if other != node],
            "inner_steps": 5,
            "poll_interval": 0.2 if hub else 0.02,
            "lease": 4.0 if hub else 1.0,
            "grace": 0.3,
            "keep_rounds": "all",
            "retry_initial": 0.02,
            "retry_max": 0.2,
        },
    }


def start(where: Where, node: str, steps: int) -> int:
    """Fork a node; its words go to a file."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        path = where.folder / f"{node}.log"
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        import logging

        logging.basicConfig(level="WARNING", force=True, format="%(message)s")
        logging.getLogger("speedtronic").setLevel("INFO")
        told = train(config_from_dict(config(where, node, steps)), resume="auto")
        code = told.exit_code
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(code)


def leader(folder: Path) -> str | None:
    """Who says that it leads."""
    for node in NODES:
        told = read_report(folder / node)
        if told is not None and told.leads:
            return node
    return None


def reached(folder: Path, node: str) -> int:
    """The newest checkpoint of a node."""
    steps = [int(p.name[5:13]) for p in (folder / node).glob("checkpoints/step-*")]
    return max(steps, default=0)


def wait(where: Where, commits: int, longer_s: float) -> None:
    """Until the lane has moved on so far, and then a moment that nobody chose."""
    end_s, head = time.monotonic() + PATIENCE_S, where.head()
    while commits and time.monotonic() < end_s:
        signal.sigtimedwait({signal.SIGCHLD}, MOMENT_S)
        now = where.head()
        if now not in (None, head):
            head, commits = now, commits - 1
    signal.sigtimedwait({signal.SIGCHLD}, longer_s)


def emulator(seed: int, rate: float) -> "subprocess.Popen[str]":
    """Start an emulated Hub, and make it the Hub of this process and its children."""
    arguments = ["--port", "0", "--seed", str(seed), "--faults", str(rate)]
    process = subprocess.Popen(
        [sys.executable, "-m", "speedtronic", "testing", "hub", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"export HF_ENDPOINT=(\S+) HF_TOKEN=(\S+)", line):
            endpoint, token = found.groups()
        if line.startswith("Ctrl-C"):
            break
    quiet = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    os.environ.update(HF_ENDPOINT=endpoint, HF_TOKEN=token, **quiet)
    return process


def no_more_faults() -> None:
    """Let the emulated Hub answer as it should."""
    url = f"{os.environ['HF_ENDPOINT']}/emulator/faults"
    urllib.request.urlopen(urllib.request.Request(url, method="DELETE")).close()


def chaos(where: Where, kills: int, seed: int) -> dict[str, Any]:
    """Kill and start again, then let the run come to its end."""
    folder, chance = where.folder, random.Random(seed)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for node in NODES:  # so that all are in the first roster
        create(folder / "keys" / f"{node}.pem")
    alive = {start(where, node, NO_END): node for node in NODES}
    leaders_killed, ends = 0, {}
    for _ in range(kills):
        wait(where, chance.randint(0, MOST_COMMITS), chance.uniform(0.0, MOMENT_S))
        leads = leader(folder)
        victims = list(alive)
        if leads and chance.random() < LEADERS:
            victims = [pid for pid, node in alive.items() if node == leads]
        victim = chance.choice(victims)
        leaders_killed += alive[victim] == leads
        os.kill(victim, signal.SIGKILL)
        pid, status = os.waitpid(victim, 0)
        node = alive.pop(pid)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, (node, status)
        alive[start(where, node, NO_END)] = node
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if where.lane.startswith("hub:"):
        no_more_faults()
    last = [
        (start(where, node, reached(folder, node) + LAST_STEPS), node) for node in NODES
    ]
    for pid, node in last:
        ends[node] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    view = Looker(parse_lane(where.lane)).look()
    return {
        "kills": kills + len(NODES),
        "leaders_killed": leaders_killed,
        "ends": ends,
        "round": view.manifest.round if view.manifest else -1,
        "epoch": view.manifest.lease.epoch if view.manifest else -1,
        "waiting": len(view.deltas),
    }


def main(folder: Path, kills: int, seed: int, rate: float | None) -> None:
    """On a folder, or on an emulated Hub."""
    lane = f"dir:{folder / 'lane'}"
    if rate is None:
        parse_lane(lane, create=True)
        told = chaos(Where(folder, lane), kills, seed)
    else:
        hub = emulator(seed, rate)
        parse_lane("hub:owner/chaos", create=True)
        told = chaos(Where(folder, "hub:owner/chaos"), kills, seed)
        told["replayed"] = verified("hub:owner/chaos")
        hub.terminate()
        hub.wait()
    sys.stdout.write(json.dumps(told) + "\n")


def verified(lane: str) -> dict[str, Any]:
    """What a replay says of the run, from its repository alone."""
    found = replay(parse_lane(lane))
    return {
        "problems": [report.problem for report in found.rounds if report.problem],
        "rounds": found.rounds[-1].round,
    }


if __name__ == "__main__":
    share = float(sys.argv[4]) if len(sys.argv) > 4 else None
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), share)
