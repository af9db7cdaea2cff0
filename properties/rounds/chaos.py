"""Four nodes of one run, killed at random moments; run as a script.

Arguments: an empty folder, how many kills, a seed. Prints one JSON object: how often
the leader was killed, how the processes ended at last, and how far the run came.

One node begins the run, the others may lead. Every process is a fork of this one, which
computes nothing itself, and ends by SIGKILL: between two system calls, while it trains,
saves, uploads, aggregates or publishes. It is started again at once. When all kills are
done, all nodes are started with an end that they reach, and left alone.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from speedtronic.shell.config import config_from_dict
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.distributed.report import read_report
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.train import train

NODES = ("node-0", "node-1", "node-2", "node-3")
LAST_STEPS = 40  # of every node, when nobody is killed any more
LEADERS = 0.4  # how often the victim is whoever leads
MOST_COMMITS = 9  # on the lane, between two kills
PATIENCE_S = 20.0  # for them; a kill may have taken away whoever commits
MOMENT_S = 0.02
NO_END = 10**9


def config(folder: Path, node: str, steps: int) -> dict[str, Any]:
    """A tiny model, short rounds, a short lease."""
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
            "lane": f"dir:{folder / 'lane'}",
            "role": "master" if node == NODES[0] else "auto",
            "node_id": node,
            "collaborators": [other for other in NODES if other != node],
            "inner_steps": 5,
            "poll_interval": 0.02,
            "lease": 1.0,
            "grace": 0.3,
            "keep_rounds": "all",
            "retry_initial": 0.02,
            "retry_max": 0.2,
        },
    }


def start(folder: Path, node: str, steps: int) -> int:
    """Fork a node; its words go to a file."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(folder / f"{node}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        import logging

        logging.basicConfig(level="INFO", force=True, format="%(message)s")
        told = train(config_from_dict(config(folder, node, steps)), resume="auto")
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


def wait(folder: Path, commits: int, longer_s: float) -> None:
    """Until the lane has moved on so far, and then a moment that nobody chose."""
    lane = parse_lane(f"dir:{folder / 'lane'}")
    end_s, head = time.monotonic() + PATIENCE_S, lane.head()
    while commits and time.monotonic() < end_s:
        signal.sigtimedwait({signal.SIGCHLD}, MOMENT_S)
        if lane.head() != head:
            head, commits = lane.head(), commits - 1
    signal.sigtimedwait({signal.SIGCHLD}, longer_s)


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill and start again, then let the run come to its end."""
    chance = random.Random(seed)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    parse_lane(f"dir:{folder / 'lane'}", create=True)
    alive = {start(folder, node, NO_END): node for node in NODES}
    leaders_killed, ends = 0, {}
    for _ in range(kills):
        wait(folder, chance.randint(0, MOST_COMMITS), chance.uniform(0.0, MOMENT_S))
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
        alive[start(folder, node, NO_END)] = node
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    last = [
        (start(folder, node, reached(folder, node) + LAST_STEPS), node)
        for node in NODES
    ]
    for pid, node in last:
        ends[node] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    view = Looker(parse_lane(f"dir:{folder / 'lane'}")).look()
    told = {
        "kills": kills + len(NODES),
        "leaders_killed": leaders_killed,
        "ends": ends,
        "round": view.manifest.round if view.manifest else -1,
        "epoch": view.manifest.lease.epoch if view.manifest else -1,
        "waiting": len(view.deltas),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
