"""Drives the real machines over a real lane through any schedule of faults.

A schedule is bytes, three per event: what happens, to whom, and how. So a schedule
can be drawn, shrunk and replayed, and the same bytes always do the same things. After
every event the observer checks what must always hold. At the end faults stop, every
node gets fair turns, and all work that is still alive must be counted.

    python -m properties.round.simulator --schedules 100000 --seed 1 --processes 2
"""

import argparse
import multiprocessing
import random
import sys
from collections import Counter
from hashlib import sha256

import attrs
from attrs import define, field, frozen
from properties.round.integers import FIRST, TOKENS, Vectors, token
from properties.round.network import Link, Watched
from properties.round.observer import Observer, Violation
from properties.round.process import Machines, Process, Save, file

from speedtronic.pure.round import names
from speedtronic.pure.round.admit import Bounds
from speedtronic.pure.round.events import Publish, Stop, Upload
from speedtronic.pure.round.manifest import Limits
from speedtronic.pure.round.master import (
    Genesis,
    MasterSettings,
    leads,
    master,
    start_master,
)
from speedtronic.pure.round.worker import (
    WorkerSettings,
    may_save,
    may_train,
    start_worker,
    worker,
)
from speedtronic.shell.lanes.memory import MemoryLane

REAL = Machines(worker, master)
LINEAGE = "ab" * 32
ROUND_S = 100.0
POLL_S = 5.0
TTL_S = 60.0
FAIR_TURNS = 80
FAIR_S = 45.0  # of each turn: less than the ttl


@frozen(kw_only=True)
class Scope:
    """Which faults a schedule may contain, and how the run is set up."""

    roles: tuple[str, ...] = ("auto", "worker", "master")  # one node each
    limits: Limits = Limits(staleness=1, window=64, per_round=8)
    inner_steps: int = 2
    carry: bool = True
    codec: str = "none"
    wait_s: float = 0.0
    keep_rounds: int | None = 3
    crash: bool = True  # restart from the newest checkpoint
    old: bool = False  # ... or from an older one
    fresh: bool = False  # ... or from nothing
    clone: bool = False  # a second process from a copy of the run directory
    network: bool = True  # lost, late and repeated requests, partitions
    squash: bool = True
    bad: bool = False  # models that are not finite, objections
    foreign: bool = False  # the last node has another lineage
    busy: bool = False  # training goes on in the first fair turns
    slow: bool = False  # ... and the first node's uploads take a round

    @property
    def rules(self) -> set[str]:
        """By which rules work may be given up here."""
        found = {"crash"}
        found |= {"old", "twin"} if self.old else set()
        found |= {"twin"} if self.clone else set()
        found |= {"refused"} if self.bad else set()
        found |= {"not carried"} if not self.carry else set()
        found |= {"away"} if self.limits.window < 10 else set()
        return found


SCOPES = {
    "plain": Scope(),
    "three leaders, three workers": Scope(
        roles=("auto", "auto", "auto"), keep_rounds=0
    ),
    "old checkpoints": Scope(old=True, fresh=True),
    "clones": Scope(old=True, fresh=True, clone=True),
    "refusals": Scope(bad=True, old=True, fresh=True),
    "two runs on one lane": Scope(foreign=True, roles=("auto", "worker", "auto")),
    "eviction": Scope(
        limits=Limits(staleness=1, window=1, per_round=8), old=True, fresh=True
    ),
    "eviction, everything": Scope(
        limits=Limits(staleness=1, window=2, per_round=8),
        old=True,
        fresh=True,
        clone=True,
        bad=True,
    ),
    "staleness 3, window 3": Scope(
        limits=Limits(staleness=3, window=3, per_round=8),
        old=True,
        fresh=True,
        clone=True,
    ),
    "codec": Scope(codec="half", old=True, fresh=True, bad=True),
    "classical": Scope(carry=False, old=True, fresh=True, bad=True),
    "classical, codec": Scope(carry=False, codec="half", old=True, clone=True),
    "waiting": Scope(wait_s=30.0, old=True),
    "slow uploader": Scope(busy=True, slow=True, keep_rounds=None),
    "one delta per round": Scope(
        roles=("worker", "worker", "worker", "master"),
        limits=Limits(staleness=1, window=400, per_round=1),
        busy=True,
    ),
    "everything": Scope(
        roles=("auto", "auto", "worker", "master"),
        old=True,
        fresh=True,
        clone=True,
        bad=True,
        codec="half",
    ),
}


@define
class World:
    """A lane, its nodes, and everything that can happen to them."""

    scope: Scope
    machines: Machines
    lane: Watched = field(init=False)
    links: dict[str, Link] = field(factory=dict)
    observer: Observer = field(init=False)
    processes: list[Process] = field(factory=list)
    lives: int = 0
    used: int = FIRST  # tokens
    events: int = 0
    hits: Counter[str] = field(factory=Counter)
    trace: list[str] | None = None

    def __attrs_post_init__(self) -> None:
        scope = self.scope
        self.observer = Observer(
            data_once=not (scope.old or scope.fresh or scope.clone),
            keep_rounds=scope.keep_rounds,
            foreign=scope.foreign,
        )
        self.lane = Watched(MemoryLane(keep=3), self.observer.committed)
        for i in range(len(scope.roles)):
            self.links[f"n{i}"] = Link.to(self.lane)
            self.processes.append(self.start(f"n{i}", [], None))

    # ------------------------------------------------------------------ lives

    def start(self, node: str, saves: list[Save], run: str | None) -> Process:
        """A process of a node begins, from its newest checkpoint if it has one."""
        scope = self.scope
        index = int(node[1:])
        life = sha256(f"{node} {self.lives}".encode()).hexdigest()[:16]
        self.lives += 1
        now_s = 1000.0 * self.lives  # clocks of two processes have nothing in common
        foreign = scope.foreign and index == len(scope.roles) - 1
        lineage = "cd" * 32 if foreign else LINEAGE
        newest = saves[-1] if saves else None
        role = scope.roles[index]
        first = file(names.WEIGHTS, token(index)), file(names.MOMENTUM, 0)
        process = Process(
            node=node,
            life=life,
            lane=self.links[node].lane,
            machines=self.machines,
            codec=scope.codec,
            worker=None
            if role == "master"
            else start_worker(
                WorkerSettings(
                    node=node,
                    life=life,
                    lineage=lineage,
                    inner_steps=scope.inner_steps,
                    round_s=ROUND_S,
                    wait_s=scope.wait_s,
                    carry=scope.carry,
                    codec=scope.codec,
                    poll_s=POLL_S,
                    retry_max_s=POLL_S,
                ),
                now_s,
                newest.record if newest else None,
            ),
            master=None
            if role == "worker"
            else start_master(
                MasterSettings(
                    node=node,
                    life=life,
                    lineage=lineage,
                    limits=scope.limits,
                    outer=(("rate", 1),),
                    bounds=Bounds(payload_bytes=1 << 12),
                    genesis=Genesis(weights=first[0][0], momentum=first[1][0]),
                    grace_s=POLL_S,
                    ttl_s=TTL_S,
                    keep_rounds=scope.keep_rounds,
                    poll_s=POLL_S,
                    retry_max_s=POLL_S,
                ),
                now_s,
                run or (newest.record.run if newest else None),
            ),
            vectors=attrs.evolve(newest.vectors) if newest else Vectors(),
            saves=saves,
            now_s=now_s,
        )
        process.remembered = run
        for info, data in first:
            process.files[info.sha256] = data
        return process

    def restart(self, process: Process, how: int) -> None:
        """The process dies; another one begins from what is on the disk."""
        scope = self.scope
        before = self.alive(process)
        kinds = ["new"] * 3 + ["old"] * 2 * scope.old + ["fresh"] * scope.fresh
        kind = kinds[how % len(kinds)]
        saves, run = process.saves, process.remembered
        if kind == "old" and len(saves) > 1:
            saves = saves[: 1 + how % (len(saves) - 1)]
        if kind == "fresh":
            saves, run = [], None
        new = self.start(process.node, list(saves), run)
        lost = before - self.alive(new)
        rule = "old" if kind == "old" else "crash"
        for t in lost:
            self.observer.why.setdefault(t, set()).add(rule)
        self.processes[self.processes.index(process)] = new
        self.say(f"{process.node} restarts ({kind}) as {new.life}")

    def alive(self, process: Process) -> set[int]:
        """Tokens that a process may still deliver."""
        worker = process.worker
        pending = worker is not None and worker.record.pending is not None
        return process.vectors.alive(pending)

    def clone(self, process: Process) -> None:
        """A second process from a copy of the run directory, the first one goes on."""
        if len(self.processes) == len(self.scope.roles) and process.saves:
            copy = self.start(process.node, list(process.saves), process.remembered)
            self.processes.append(copy)
            self.say(f"{copy.life} starts from a copy of {process.node}")

    # ------------------------------------------------------------------ events

    def step(self, op: str, who: int, how: int) -> None:
        """One event, then a look at whoever it concerned."""
        process = self.processes[who % len(self.processes)]
        self.say(f"{op} {process.node} {process.life[:4]} {how}")
        self.events += 1
        match op:
            case "train":
                self.train(process)
            case "bad":
                process.vectors.bad = bool(process.vectors.progress)
            case "boundary":
                process.boundary(0)
            case "perform":
                self.perform(process, how // 7, how)
            case "answer":
                process.answer(how)
            case "both":
                self.perform(process, 0, how)
                process.answer(-1)
            case "tick":
                process.tick(how % 12)
            case "wait":
                process.tick(40.0 + how % 90)
            case "save":
                state = process.worker
                if state and state.record.joined and may_save(state):
                    process.save(state.record, process.vectors)
            case "crash":
                self.restart(process, how)
            case "stop":
                self.stop(process, how)
            case "clone":
                self.clone(process)
            case "cut off":
                link = self.links[process.node]
                link.cut_off = not link.cut_off
            case "squash":
                self.lane.drop_history()
        self.observer.look_at(self.processes[who % len(self.processes)])

    def perform(self, process: Process, which: int, how: int) -> None:
        """Do an effect, perhaps with a fault on its way to the lane."""
        scope = self.scope
        if process.queue and scope.network:
            effect = process.queue[which % len(process.queue)][1]
            commit = isinstance(effect, Upload | Publish)
            self.links[process.node].plan(commit, how)
        process.objects = scope.bad
        process.perform(which, how, scope.network)

    def train(self, process: Process) -> None:
        """One inner step on the next batch of the node."""
        if process.worker and may_train(process.worker) and self.used < TOKENS - 4:
            t, self.used = self.used, self.used + 1
            vectors = process.vectors
            self.observer.data[t] = (process.node, vectors.cursor)
            vectors.theta += token(t)
            vectors.cursor += 1
            process.boundary(1)

    def stop(self, process: Process, how: int) -> None:
        """A clean stop; once it is through, the node starts again."""
        if process.stopped:
            self.restart(process, 0)
            return
        deadline = process.now_s + how % 20
        process.tell("worker", Stop(process.now_s, deadline))
        process.tell("master", Stop(process.now_s, deadline))

    def say(self, text: str) -> None:
        """Keep a line for a person who reads a failure."""
        if self.trace is not None:
            self.trace.append(text)

    # ------------------------------------------------------------------ the end

    def settle(self) -> None:
        """Faults stop. All that is alive must be counted within some fair turns."""
        scope = self.scope
        rules = scope.rules
        self.scope = attrs.evolve(scope, network=False, bad=False)
        for link in self.links.values():
            link.cut_off = False
            link.planned.clear()
        before = Counter(self.observer.served)
        for turn in range(FAIR_TURNS):
            busy = scope.busy and turn < FAIR_TURNS // 2
            for process in list(self.processes):
                self.turn(process, busy)
                if process.stopped:
                    self.restart(process, 0)
            if busy and scope.slow:
                self.processes[0].perform(0, 0, faults=False)
            if busy and turn == FAIR_TURNS // 2 - 1:
                self.starved(before)
            if not busy and self.idle():
                break
        else:
            manifest = self.observer.manifest(self.lane.tree)
            if manifest is not None and manifest.lineage == LINEAGE:
                left = {p.node: sorted(self.alive(p)) for p in self.processes}
                raise Violation("stuck", f"not delivered in {FAIR_TURNS} turns: {left}")
        self.account(rules)

    def turn(self, process: Process, busy: bool) -> None:
        """A fair turn: some time, a step, and every effect done and answered."""
        process.tick(FAIR_S)
        if busy:
            self.train(process)
        slow = self.scope.slow and busy and process is self.processes[0]
        for _ in range(20):
            process.boundary(0)
            if slow and any(isinstance(q[1], Upload) for q in process.queue):
                break
            if not process.queue and not process.inbox:
                break
            process.perform(0, 0, faults=False)
            process.answer(0)
            self.observer.look_at(process)
        process.boundary(0)
        self.observer.look_at(process)

    def starved(self, before: Counter[str]) -> None:
        """Whether somebody who worked all the time was never counted."""
        never = [
            p.node
            for p in self.processes
            if p.worker and p.worker.record.joined and not p.ends
            and self.observer.served[p.node] == before[p.node]
        ]  # fmt: skip
        if never and self.used < TOKENS - 4:
            raise Violation("starved", f"{never} never counted")

    def idle(self) -> bool:
        """Whether somebody leads and nobody has anything left to deliver."""
        manifest = self.observer.manifest(self.lane.tree)
        if manifest is None or not any(
            p.master and leads(p.master) for p in self.processes
        ):
            return False
        return all(delivered(p) for p in self.processes)

    def account(self, rules: set[str]) -> None:
        """Every token counts, is in a codec's error, or was given up by a rule."""
        manifest = self.observer.manifest(self.lane.tree)
        if manifest is not None and manifest.lineage == LINEAGE:
            weights = int(self.lane.tree[names.WEIGHTS])
            weights |= sum({p.vectors.error for p in self.processes})
            self.observer.account(manifest, weights, self.used, rules)


def delivered(process: Process) -> bool:
    """Whether a process holds no work that the next cut would send."""
    worker = process.worker
    if worker is None or process.halted:
        return True
    record = worker.record
    held = record.unsent_steps or record.owed or record.pending
    return record.joined and not held and not process.vectors.progress


WEIGHTS_OF_OPS = {
    "train": 34,
    "both": 66,
    "perform": 26,
    "answer": 26,
    "boundary": 14,
    "tick": 34,
    "wait": 12,
    "save": 6,
    "crash": 6,
    "stop": 4,
    "cut off": 4,
    "squash": 3,
    "clone": 3,
    "bad": 4,
}
TABLE = [op for op, weight in WEIGHTS_OF_OPS.items() for _ in range(weight)]


def allowed(scope: Scope, op: str) -> bool:
    """Whether a scope has such events."""
    gates = {
        "crash": scope.crash,
        "clone": scope.clone,
        "squash": scope.squash,
        "bad": scope.bad,
        "cut off": scope.network,
    }
    return gates.get(op, True)


def run(
    scope: Scope,
    schedule: bytes,
    machines: Machines = REAL,
    trace: list[str] | None = None,
) -> World:
    """Do what a schedule says, then settle.

    Raises:
        Violation: something that must always hold did not.
    """
    world = World(scope, machines)
    world.trace = trace
    if schedule and schedule[0] % 8:  # most schedules begin with a run that exists
        prologue(world)
    for i in range(1, len(schedule) - 2, 3):
        op = TABLE[schedule[i] % len(TABLE)]
        if allowed(scope, op):
            world.step(op, schedule[i + 1], schedule[i + 2])
    world.say("faults stop")
    world.settle()
    return world


def prologue(world: World) -> None:
    """A leader begins the run and every worker joins."""
    world.scope, scope = attrs.evolve(world.scope, network=False), world.scope
    for _ in range(2):
        for process in world.processes:
            world.turn(process, busy=False)
    world.scope = scope


def schedule(seed: int, events: int = 220) -> bytes:
    """The schedule that belongs to a seed."""
    rng = random.Random(seed)
    return rng.randbytes(1 + 3 * rng.randint(events // 2, events))


def main() -> int:
    """Run many schedules from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    chosen = [name for name in SCOPES if options.only in name]
    jobs = [
        (name, options.seed + i)
        for name in chosen
        for i in range(-(-options.schedules // len(chosen)))
    ]
    total: Counter[str] = Counter()
    with multiprocessing.Pool(options.processes) as pool:
        for name, seed, events, rounds, told in pool.imap_unordered(_one, jobs, 50):
            total += Counter(schedules=1, events=events, rounds=rounds)
            if told:
                total["violations"] += 1
                sys.stdout.write(f"{name!r}, seed {seed}: {told}\n")
    sys.stdout.write(f"{dict(total)}\n")
    return 1 if total["violations"] else 0


def _one(job: tuple[str, int]) -> tuple[str, int, int, int, str]:
    name, seed = job
    try:
        world = run(SCOPES[name], schedule(seed))
    except Violation as violation:
        return name, seed, 0, 0, str(violation)
    return name, seed, world.events, len(world.observer.rounds), ""


if __name__ == "__main__":
    sys.exit(main())
