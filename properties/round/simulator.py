"""Drives the real machines over a real lane through any schedule of faults.

A schedule is bytes, three per event: what happens, to whom, and how. So a schedule
can be drawn, shrunk and replayed, and the same bytes always do the same things. After
every event the observer checks what must always hold. At the end faults stop, every
node gets fair turns, and all work that is still alive must be counted.

    python -m properties.round.simulator --schedules 100000 --seed 1 --processes 2
    python -m properties.round.simulator --only plain --seed 17 --trace
"""

import argparse
import multiprocessing
import random
import sys
from collections import Counter

import attrs
from properties.round.fair import settle, turn
from properties.round.observer import Violation
from properties.round.process import Machines
from properties.round.scopes import SCOPES, Scope
from properties.round.world import World

from speedtronic.pure.round.master import master
from speedtronic.pure.round.worker import worker
from speedtronic.shell.lanes.base import Lane

REAL = Machines(worker, master)
EVENTS = 160  # of a schedule at most
OPERATIONS = {
    "nothing": 4,  # so that a schedule shrinks to few events
    "train": 32,
    "go on": 120,
    "perform": 21,
    "answer": 20,
    "boundary": 12,
    "tick": 12,
    "wait": 4,
    "save": 6,
    "crash": 6,
    "stop": 4,
    "cut off": 4,
    "squash": 3,
    "clone": 4,
    "bad": 4,
}
TABLE = [name for name, share in OPERATIONS.items() for _ in range(share)]


def run(
    scope: Scope,
    schedule: bytes,
    machines: Machines = REAL,
    trace: list[str] | None = None,
    lane: Lane | None = None,
) -> World:
    """Do what a schedule says, then settle.

    Args:
        scope: of the run and of its faults.
        schedule: what happens.
        machines: those under test.
        trace: takes a line for each event.
        lane: an empty one, if not a new one in memory.

    Raises:
        Violation: something that must always hold did not.
    """
    world = World(scope, machines) if lane is None else World(scope, machines, lane)
    world.trace = trace
    if schedule and schedule[0] % 8:  # most schedules begin with a run that exists
        _begin(world)
    for i in range(1, len(schedule) - 2, 3):
        operation = TABLE[schedule[i]]
        if scope.signed and operation == "clone":
            operation = "roster"
        if _possible(scope, operation):
            world.step(operation, schedule[i + 1], schedule[i + 2])
    world.say("faults stop")
    settle(world)
    return world


def schedule(seed: int) -> bytes:
    """The schedule that belongs to a seed."""
    rng = random.Random(seed)
    return rng.randbytes(1 + 3 * rng.randint(EVENTS // 2, EVENTS))


def main() -> int:
    """Run many schedules, or show one."""
    parser = argparse.ArgumentParser(description="Simulate rounds under faults.")
    parser.add_argument("--schedules", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", default="", help="scopes with this in their name")
    parser.add_argument("--trace", action="store_true", help="show this one seed")
    options = parser.parse_args()
    chosen = [name for name in SCOPES if options.only in name]
    if options.trace:
        lines: list[str] = []
        told = _told(chosen[0], options.seed, lines)
        sys.stdout.write("\n".join([*lines, told or "nothing is wrong", ""]))
        return 1 if told else 0
    each = -(-options.schedules // len(chosen))
    jobs = [(name, options.seed + i) for name in chosen for i in range(each)]
    total: Counter[str] = Counter()
    with multiprocessing.Pool(options.processes) as pool:
        for name, seed, counts, told in pool.imap_unordered(_job, jobs, 50):
            total += counts
            if told:
                sys.stdout.write(f"{name!r}, seed {seed}: {told}\n")
    sys.stdout.write(f"{dict(total)}\n")
    return 1 if total["violations"] else 0


def _begin(world: World) -> None:
    """A leader begins the run and every worker joins."""
    world.scope, scope = attrs.evolve(world.scope, network=False), world.scope
    for _ in range(2):
        for process in world.processes:
            turn(world, process, busy=False)
    world.scope = scope


def _possible(scope: Scope, operation: str) -> bool:
    """Whether a scope has such events."""
    gates = {
        "nothing": False,
        "crash": scope.crash,
        "clone": scope.clone,
        "squash": scope.squash,
        "bad": scope.bad,
        "cut off": scope.network,
    }
    return gates.get(operation, True)


def _job(job: tuple[str, int]) -> tuple[str, int, Counter[str], str]:
    name, seed = job
    counts: Counter[str] = Counter(schedules=1)
    try:
        world = run(SCOPES[name], schedule(seed))
    except Violation as violation:
        return name, seed, counts + Counter(violations=1), str(violation)
    counts += Counter(events=world.events, rounds=len(world.observer.rounds))
    return name, seed, counts, ""


def _told(name: str, seed: int, lines: list[str]) -> str:
    try:
        run(SCOPES[name], schedule(seed), trace=lines)
    except Violation as violation:
        return str(violation)
    return ""


if __name__ == "__main__":
    sys.exit(main())
