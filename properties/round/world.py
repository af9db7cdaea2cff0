"""A lane, its nodes, and everything that can happen to them."""

import json
from hashlib import sha256

import attrs
from attrs import define, field
from properties.round.integers import FIRST, TOKENS, Vectors, token
from properties.round.network import REVISIONS_KEPT, Link, Watched
from properties.round.observer import Observer
from properties.round.process import Machines, Process, Save, file, key_of
from properties.round.scopes import POLL_S, Scope

from speedtronic.pure.round import names
from speedtronic.pure.round.admit import Bounds
from speedtronic.pure.round.chain import run_id
from speedtronic.pure.round.events import Stop
from speedtronic.pure.round.manifest import File
from speedtronic.pure.round.master import Genesis, MasterSettings, leads, start_master
from speedtronic.pure.round.record import from_plain
from speedtronic.pure.round.roster import Roster, added, founded, newer
from speedtronic.pure.round.roster import encode as encode_roster
from speedtronic.pure.round.roster import parse as parse_roster
from speedtronic.pure.round.worker import (
    WorkerSettings,
    may_save,
    may_train,
    start_worker,
)
from speedtronic.shell.lanes.base import ANY, Lane
from speedtronic.shell.lanes.memory import MemoryLane

OWNER, SIGNED = "e" * 64, "f" * 128
LINEAGE = "ab" * 32
FOREIGN = "cd" * 32
ROUND_S = 100.0
TTL_S = 60.0


@define
class World:
    """A lane, its nodes, and everything that can happen to them."""

    scope: Scope
    machines: Machines
    real: Lane = field(factory=lambda: MemoryLane(keep=REVISIONS_KEPT))
    lane: Watched = field(init=False)
    links: dict[str, Link] = field(factory=dict)
    observer: Observer = field(init=False)
    processes: list[Process] = field(factory=list)
    lives: int = 0
    used: int = FIRST  # tokens
    events: int = 0
    trace: list[str] | None = None

    def __attrs_post_init__(self) -> None:
        scope = self.scope
        self.observer = Observer(
            data_once=not (scope.old or scope.fresh or scope.clone),
            keep_rounds=scope.keep_rounds,
            foreign=scope.foreign,
        )
        self.lane = Watched(self.real, self.observer.committed)
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
        lineage = FOREIGN if foreign else LINEAGE
        newest = saves[-1] if saves else None
        record = from_plain(json.loads(newest.record)) if newest else None
        role = scope.roles[index]
        first = file(names.WEIGHTS, token(index)), file(names.MOMENTUM, 0)
        process = Process(
            node=node,
            life=life,
            lane=self.links[node].lane,
            machines=self.machines,
            codec=scope.codec,
            worker=None,
            master=None,
            vectors=attrs.evolve(newest.vectors) if newest else Vectors(),
            saves=saves,
            now_s=now_s,
        )
        if role != "master":
            settings = self.worker_settings(node, life, lineage)
            process.worker = start_worker(settings, now_s, record)
        if role != "worker":
            genesis = Genesis(
                weights=first[0][0],
                momentum=first[1][0],
                roster=self.roster(lineage, first[0][0], life),
            )
            leader = self.master_settings(node, life, lineage, genesis)
            known = run or (record.run if record else None)
            process.master = start_master(leader, now_s, known)
        process.remembered = run
        for info, data in first:
            process.files[info.sha256] = data
        return process

    def worker_settings(self, node: str, life: str, lineage: str) -> WorkerSettings:
        """As the scope has it."""
        scope = self.scope
        return WorkerSettings(
            node=node,
            life=life,
            lineage=lineage,
            inner_steps=scope.inner_steps,
            round_s=ROUND_S,
            wait_s=scope.wait_s,
            carry=scope.carry,
            codec=scope.codec,
            key=key_of(node) if scope.signed else "",
            poll_s=POLL_S,
            retry_max_s=POLL_S,
        )

    def roster(self, lineage: str, weights: File, life: str) -> Roster | None:
        """The first one: of all nodes, where those may lead that can."""
        if not self.scope.signed:
            return None
        run = run_id(lineage, weights, life, OWNER)
        keys = {f"n{i}": key_of(f"n{i}") for i in range(len(self.scope.roles))}
        members = tuple(
            attrs.evolve(m, role="worker")
            if self.scope.roles[int(m.node[1:])] == "worker"
            else m
            for m in founded(run, OWNER, keys).members
        )
        return Roster(
            run=run, owner=OWNER, version=1, members=members, signature=SIGNED
        )

    def ask(self, process: Process, how: int) -> None:
        """The owner lets a node lead, or lead no more, or gives it another limit."""
        manifest = self.observer.manifest(self.lane.tree)
        if manifest is None or manifest.roster is None:
            return
        old = manifest.roster
        data = self.lane.tree.get(names.ROSTER)
        asked = parse_roster(data) if data else old
        old = asked if newer(old, asked) else old
        member = old.member(process.node)
        assert member is not None
        new = attrs.evolve(member, max_norm=1e9 + how)
        if self.scope.roles[int(process.node[1:])] != "worker" and how % 2:
            new = attrs.evolve(
                new, role="worker" if member.role == "master" else "master"
            )
        try:
            roster = attrs.evolve(added(old, new), signature=SIGNED)
        except ValueError:  # nobody would be left to lead
            return
        self.lane.commit({names.ROSTER: encode_roster(roster)}, parent=ANY)

    def master_settings(
        self, node: str, life: str, lineage: str, genesis: Genesis
    ) -> MasterSettings:
        """As the scope has it."""
        scope = self.scope
        return MasterSettings(
            node=node,
            life=life,
            key=key_of(node) if scope.signed else "",
            lineage=lineage,
            limits=scope.limits,
            outer=(("rate", 1),),
            bounds=Bounds(payload_bytes=1 << 12),
            genesis=genesis,
            grace_s=scope.grace_s,
            ttl_s=TTL_S,
            keep_rounds=scope.keep_rounds,
            poll_s=POLL_S,
            retry_max_s=POLL_S,
        )

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
        process = self.chosen(op, who)
        self.say(f"{op} {process.node} {process.life[:4]} {how}")
        self.events += 1
        match op:
            case "train":
                for _ in range(1 + how % 3):
                    self.train(process)
            case "bad":
                process.vectors.bad = bool(process.vectors.progress)
            case "boundary":
                process.boundary(0)
            case "perform":
                self.perform(process, how // 7, how)
            case "answer":
                process.answer(how)
            case "go on":
                for i in range(1 + how // 32):
                    if i == 0 or process.queue:
                        self.perform(process, 0, how + i)
                    process.answer(0)
                process.boundary(0)
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
            case "roster":
                self.ask(process, how)
            case "squash":
                self.lane.drop_history()
        for process in self.processes:
            self.observer.look_at(process)

    def chosen(self, op: str, who: int) -> Process:
        """A process; one with something under way is chosen more often."""
        under_way = [p for p in self.processes if p.queue or p.inbox]
        leaders = [p for p in self.processes if p.master and leads(p.master)]
        chosen = self.processes
        if op in ("go on", "perform", "answer") and who >= 80:
            chosen = under_way or chosen
        elif op == "go on" and who >= 48:
            chosen = leaders or chosen
        return chosen[who % len(chosen)]

    def perform(self, process: Process, which: int, how: int) -> None:
        """Do an effect, perhaps with a fault on its way to the lane."""
        scope = self.scope
        if not process.queue:
            process.tick(POLL_S)  # time enough for something to be due
        if process.queue and scope.network:
            effect = process.queue[which % len(process.queue)][1]
            self.links[process.node].plan(effect, how)
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
