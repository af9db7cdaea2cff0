"""One process of a node: performs the effects of the real machines with integers.

Effects of the training thread (`Install`, the copy of a `Cut`) happen at once. All
others wait in ``queue`` until the schedule performs them, and their answers wait in
``inbox`` until the schedule delivers them, so a crash can fall anywhere between.
"""

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any

import attrs
from attrs import define, field, frozen
from properties.round.integers import Vectors, outer

from speedtronic.errors import Corrupt, LaneError, Missing
from speedtronic.pure.round import events as e
from speedtronic.pure.round import header as headers
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names, plain
from speedtronic.pure.round.admit import Broken, Candidate, Facts
from speedtronic.pure.round.manifest import File, Manifest
from speedtronic.pure.round.master import Master
from speedtronic.pure.round.record import Record, to_plain
from speedtronic.pure.round.roster import Roster, newer
from speedtronic.pure.round.roster import parse as parse_roster
from speedtronic.pure.round.worker import Worker
from speedtronic.shell.lanes.base import ANY, Blob, Copy, Lane

parse = lru_cache(1 << 12)(manifests.parse)  # readers see the same bytes often
Machine = Callable[[Any, e.Event], tuple[Any, tuple[e.Effect, ...]]]


@frozen
class Save:
    """A checkpoint."""

    record: bytes  # as it is written to disk
    vectors: Vectors


@frozen
class Machines:
    """The code under test; a test may put a broken one in."""

    worker: Machine
    master: Machine


def file(name: str, value: int) -> tuple[File, bytes]:
    """A model's file that holds one integer."""
    data = str(value).encode()
    return File(name, sha256(data).hexdigest(), len(data)), data


def delta_file(header: headers.Header, payload: str) -> bytes:
    """A delta's file: its header and its payload."""
    return plain.encode({"header": headers.to_plain(header), "payload": payload})


def read_delta(data: bytes) -> tuple[headers.Header, str]:
    """The inverse of `delta_file`."""
    value = plain.decode(data, "delta", 1 << 16)
    return headers.from_plain(value["header"]), value["payload"]


def key_of(node: str) -> str:
    """The public key of a node of a signed run."""
    return sha256(f"key of {node}".encode()).hexdigest()


def digest(payload: str) -> str:
    """The sum that a header announces."""
    return sha256(payload.encode()).hexdigest()


@define(eq=False)
class Process:
    """A life of a node."""

    node: str
    life: str
    lane: Lane
    machines: Machines
    codec: str
    worker: Worker | None
    master: Master | None
    vectors: Vectors
    saves: list[Save]
    now_s: float
    at_cut: Vectors = field(factory=Vectors)
    queue: list[tuple[str, e.Effect, Any]] = field(factory=list)
    inbox: list[tuple[str, e.Event]] = field(factory=list)
    files: dict[str, bytes] = field(factory=dict)
    remembered: str | None = None
    objects: bool = False  # its leader refuses deltas now and then
    lost: list[tuple[str, int]] = field(factory=list)  # given up by a rule, and why
    told: list[str] = field(factory=list)
    ends: list[str] = field(factory=list)

    @property
    def halted(self) -> bool:
        """Whether a machine asked for a person."""
        return any("halted" in line for line in self.ends)

    @property
    def stopped(self) -> bool:
        """Whether every machine ended cleanly."""
        machines = [m for m in (self.worker, self.master) if m is not None]
        return not self.halted and all(m.ended for m in machines)

    def tell(self, machine: str, event: e.Event) -> None:
        """Give a machine an event and take its effects."""
        before = getattr(self, machine)
        if before is None:
            return
        state, effects = getattr(self.machines, machine)(before, event)
        setattr(self, machine, state)
        for effect in effects:
            self._take(machine, before, effect)

    def tick(self, seconds: float) -> None:
        """The clock of this process moves on."""
        self.now_s += seconds
        self.tell("worker", e.Tick(self.now_s))
        self.tell("master", e.Tick(self.now_s))

    def boundary(self, steps: int) -> None:
        """The training thread is between two steps."""
        cursor = self.vectors.cursor
        self.tell("worker", e.Boundary(self.now_s, steps, steps, cursor))

    def save(self, record: Record, vectors: Vectors) -> None:
        """Write a checkpoint; the last few are kept."""
        saved = Save(plain.encode(to_plain(record)), attrs.evolve(vectors))
        self.saves[:] = [*self.saves, saved][-4:]

    def answer(self, which: int) -> None:
        """Deliver one answer to the machine that asked."""
        if self.inbox:
            machine, event = self.inbox.pop(which % len(self.inbox))
            self.tell(machine, attrs.evolve(event, now_s=self.now_s))

    def perform(self, which: int, choice: int, faults: bool) -> None:
        """Do one of the waiting effects and keep its answer.

        Args:
            which: of those that wait.
            choice: decides whatever has to be decided, of faults too.
            faults: whether there are any.
        """
        if not self.queue:
            return
        machine, effect, held = self.queue.pop(which % len(self.queue))
        try:
            event = self._do(effect, held, choice if faults else 0)
        except LaneError as error:
            event = e.Failed(self.now_s, effect, str(error))
        if event is not None:
            self.inbox.append((machine, event))

    # -------------------------------------------------------------- in between

    def _take(self, machine: str, before: Any, effect: e.Effect) -> None:
        match effect:
            case e.Install():
                self._install(before, effect)
            case e.Cut():
                parity = self.worker.record.seq if self.worker else 0
                self.vectors.take_cut(self.codec, parity)
                self.at_cut = attrs.evolve(self.vectors)
                self.queue.append((machine, effect, self.at_cut))
            case e.Persist():
                pending = effect.record.pending is not None
                held = self.at_cut if pending else attrs.evolve(self.vectors)
                self.queue.append((machine, effect, held))
            case e.Tell():
                self.told.append(effect.text)
            case e.Halt():
                self.ends.append(f"{machine} halted: {effect.reason}")
            case e.Stopped():
                self.ends.append(f"{machine} stopped")
                if machine == "worker" and self.worker and self.worker.record.joined:
                    self.save(self.worker.record, self.vectors)
            case e.Remember():
                self.remembered = effect.run
            case _:
                self.queue.append((machine, effect, None))

    def _install(self, before: Worker, effect: e.Install) -> None:
        assert self.worker is not None
        base = None
        if effect.base is not None:
            base = int(self.files[effect.base.sha256])
        pending = self.worker.record.pending is not None
        given_up = self.vectors.install(effect, base, pending)
        why = self._why(before, effect)
        self.lost += [(why, x) for x in given_up[:-1] if x]
        if given_up:
            last = "not carried" if base is not None and not effect.carry else why
            self.lost += [(last, given_up[-1])] if given_up[-1] else []

    def _why(self, before: Worker, effect: e.Install) -> str:
        if effect.cursor is None:
            return "refused"
        assert self.worker is not None
        window = before.staged.manifest.limits.window if before.staged else 0
        away = self.worker.record.base_round - before.record.base_round > window
        return "away" if away else "twin"

    # -------------------------------------------------------------- effects

    def _do(self, effect: e.Effect, held: Any, choice: int) -> e.Event | None:
        now_s = self.now_s
        match effect:
            case e.Look():
                return e.Looked(now_s, self._view())
            case e.Fetch():
                return self._fetch(effect)
            case e.Upload():
                payload = self.vectors.payload
                if digest(payload) != effect.header.payload:
                    raise LaneError("its file is gone")  # given up in the meantime
                data = delta_file(effect.header, payload)
                adds = {effect.header.name.path: data}
                self.lane.commit(adds, parent=ANY, message=self.life)
                return e.Uploaded(now_s)
            case e.Cut():
                if choice % 11 == 10:
                    return e.Failed(now_s, effect, "no room")
                payload = held.payload
                finite = not (held.bad and choice % 2)  # some nodes do not look
                return e.CutDone(now_s, digest(payload), len(payload), finite)
            case e.Persist():
                if choice % 11 == 10:
                    return e.Failed(now_s, effect, "no room")
                self.save(effect.record, held)
                return e.Persisted(now_s)
            case e.Inspect():
                return self._inspect(effect, choice)
            case e.Fold():
                return self._fold(effect)
            case e.Publish():
                self._publish(effect)
                return e.Published(now_s)
        raise AssertionError(effect)

    def _view(self) -> e.View:
        revision = self.lane.head()
        if revision is None:
            return e.View(revision=None, manifest=None)
        listing = self.lane.names("", revision)
        manifest = None
        if names.MANIFEST in listing:
            manifest = parse(self.lane.read(names.MANIFEST, revision))
        return e.View(
            revision=revision,
            manifest=manifest,
            deltas=tuple(
                e.Listed(name, listing[name.path])
                for name in names.delta_names(tuple(listing))
            ),
            kept=tuple(n for n in listing if n.startswith(names.ROUNDS)),
            proposal=self._proposal(manifest, listing, revision),
        )

    def _proposal(
        self, manifest: Manifest | None, listing: dict[str, int], revision: str
    ) -> Roster | None:
        if manifest is None or names.ROSTER not in listing:
            return None
        asked = parse_roster(self.lane.read(names.ROSTER, revision))
        return asked if newer(manifest.roster, asked) else None

    def _checked(self, wanted: File, revision: str) -> int:
        data = self.lane.read(wanted.name, revision)
        if sha256(data).hexdigest() != wanted.sha256:
            raise Corrupt(f"{wanted.name}: other bytes than the manifest says")
        self.files[wanted.sha256] = data
        return int(data)

    def _fetch(self, effect: e.Fetch) -> e.Event:
        if effect.weights:
            self._checked(effect.weights, effect.revision)
        found = [
            read_delta(self.lane.read(name.path, effect.revision))[0].cursor
            for name in effect.headers
        ]
        return e.Fetched(self.now_s, tuple(found))

    def _inspect(self, effect: e.Inspect, choice: int) -> e.Event:
        candidates: list[Candidate] = []
        broken: list[Broken] = []
        for name in effect.names:
            try:
                data = self.lane.read(name.path, effect.revision)
            except Missing:
                continue
            try:
                header, payload = read_delta(data)
            except Corrupt as error:
                broken.append(Broken(name, str(error)))
                continue
            objects = self.objects and choice % 3 == 1
            facts = Facts(
                payload=digest(payload),
                payload_bytes=len(payload),
                finite=not payload.endswith("nan"),
                objection="over quota" if objects else "",
                signed_by=key_of(header.node),  # nobody forges here
            )
            candidates.append(Candidate(name=name, header=header, facts=facts))
        return e.Inspected(self.now_s, tuple(candidates), tuple(broken))

    def _fold(self, effect: e.Fold) -> e.Event:
        manifest, revision, lane = effect.manifest, effect.revision, self.lane
        weights = self._checked(manifest.weights, revision)
        momentum = self._checked(manifest.momentum, revision)
        deltas = [
            int(read_delta(lane.read(c.name.path, revision))[1])
            for c in effect.accepted
        ]
        new = outer(weights, momentum, deltas)
        made = file(names.WEIGHTS, new[0]), file(names.MOMENTUM, new[1])
        for info, data in made:
            self.files[info.sha256] = data
        return e.Folded(self.now_s, made[0][0], made[1][0])

    def _publish(self, effect: e.Publish) -> None:
        manifest: Manifest = effect.manifest
        adds: dict[str, Blob] = dict.fromkeys(effect.names, manifests.encode(manifest))
        if effect.fresh:
            for info in (manifest.weights, manifest.momentum):
                adds[info.name] = self.files[info.sha256]
        adds |= {new: Copy(old) for old, new in effect.copies}
        self.lane.commit(adds, effect.deletes, parent=effect.parent, message=self.life)
