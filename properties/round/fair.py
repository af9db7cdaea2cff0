"""The end of a schedule: faults stop, and whatever is alive must be counted.

Safety alone would be kept by nodes that do nothing. So every schedule ends with fair
turns: clocks move, every effect is done and answered, nobody is cut off. If then work
stays undelivered, or somebody is never counted, or a token is gone and no rule gave it
up, the schedule failed.
"""

from collections import Counter

import attrs
from properties.round.integers import TOKENS
from properties.round.observer import Violation
from properties.round.process import Process
from properties.round.world import LINEAGE, World

from speedtronic.pure.round import names
from speedtronic.pure.round.events import Upload
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master import leads

TURNS = 80
BUSY_TURNS = 12  # of those, where training goes on
SETTLED_TURNS = 4  # after which everybody must have been counted
TURN_S = 45.0  # less than the ttl
MOST_EFFECTS = 20  # of a process in a turn


def settle(world: World) -> None:
    """Give everybody fair turns until nothing is left to deliver.

    Raises:
        Violation: something never ends, or work is missing at the end.
    """
    scope = world.scope
    world.scope = attrs.evolve(scope, network=False, bad=False)
    for link in world.links.values():
        link.cut_off = False
        link.planned.clear()
    before = Counter(world.observer.served)
    for number in range(TURNS):
        busy = scope.busy and number < BUSY_TURNS
        if number == SETTLED_TURNS:
            before = Counter(world.observer.served)
        for process in list(world.processes):
            turn(world, process, busy)
            if process.stopped:
                world.restart(process, 0)
        if busy and scope.slow:
            world.processes[0].perform(0, 0, faults=False)
        if busy and number == BUSY_TURNS - 1:
            _nobody_starves(world, before)
        if not busy and _idle(world):
            break
    else:
        if _manifest(world):
            left = {p.node: sorted(world.alive(p)) for p in world.processes}
            raise Violation("stuck", f"not delivered in {TURNS} turns: {left}")
    if manifest := _manifest(world):
        weights = int(world.lane.tree[names.WEIGHTS])
        weights |= sum({p.vectors.error for p in world.processes})
        world.observer.account(manifest, weights, world.used, scope.rules)


def turn(world: World, process: Process, busy: bool) -> None:
    """Some time passes, perhaps a step is taken, and every effect is done."""
    process.tick(TURN_S)
    if busy:
        world.train(process)
    rounds = len(world.observer.rounds)
    slow = world.scope.slow and busy and process is world.processes[0]
    for _ in range(MOST_EFFECTS):
        process.boundary(0)
        uploads = any(isinstance(effect, Upload) for _, effect, _ in process.queue)
        published = rounds < len(world.observer.rounds)
        if published or (slow and uploads) or not (process.queue or process.inbox):
            break
        process.perform(0, 0, faults=False)
        process.answer(0)
        world.observer.look_at(process)
    process.boundary(0)
    world.observer.look_at(process)


def _manifest(world: World) -> Manifest | None:
    """The manifest, unless another run has won the lane."""
    manifest = world.observer.manifest(world.lane.tree)
    return manifest if manifest and manifest.lineage == LINEAGE else None


def _nobody_starves(world: World, before: Counter[str]) -> None:
    served = world.observer.served
    never = [
        p.node
        for p in world.processes
        if p.worker and p.worker.record.joined and not p.ends
        if served[p.node] == before[p.node]
    ]
    if never and world.used < TOKENS - 4:
        raise Violation("starved", f"{never} worked and never counted")


def _idle(world: World) -> bool:
    """Whether somebody leads, and nobody has anything left to deliver."""
    led = any(p.master and leads(p.master) for p in world.processes)
    return led and all(_delivered(p) for p in world.processes)


def _delivered(process: Process) -> bool:
    worker = process.worker
    if worker is None or process.halted:
        return True
    record = worker.record
    held = record.unsent.steps or record.pending
    return record.joined and not held and not process.vectors.progress
