"""Watches a lane and its nodes, and says when something that always holds does not.

What it watches: one chain and no torn publication; each delta at most once and nothing
lost in silence; the global is the outer step over its listed deltas; an outage is never
an empty run; one holder per epoch, and only it publishes; everything is bounded.
"""

from collections import Counter

from attrs import define, field
from properties.round.integers import FIRST, once, outer, tokens
from properties.round.process import Process, digest, read_delta

from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.pure.round.chain import breaks
from speedtronic.pure.round.manifest import Manifest

Tree = dict[str, bytes]
MOST_IN_FLIGHT = 8


class Violation(Exception):
    """An invariant does not hold."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


@define
class Observer:
    """What an all-knowing witness remembers of a run."""

    data_once: bool  # whether no batch may be counted twice
    keep_rounds: int | None
    foreign: bool = False  # whether somebody brings another run
    rounds: dict[int, tuple[int, str]] = field(factory=dict)  # weights, round id
    counted: set[str] = field(factory=set)
    served: Counter[str] = field(factory=Counter)
    epochs: dict[int, str] = field(factory=dict)
    data: dict[int, tuple[str, int]] = field(factory=dict)  # of each token
    why: dict[int, set[str]] = field(factory=dict)  # given up by which rule
    parsed: dict[bytes, Manifest] = field(factory=dict)

    def manifest(self, tree: Tree) -> Manifest | None:
        """The manifest in a tree, which must be one that a reader takes."""
        data = tree.get(names.MANIFEST)
        if data is None:
            return None
        if data not in self.parsed:
            self.parsed[data] = manifests.parse(data)
        return self.parsed[data]

    def committed(self, before: Tree, after: Tree, who: str) -> None:
        """Called at the moment a commit is applied."""
        old, new = self.manifest(before), self.manifest(after)
        if new is None:
            if old is not None:
                raise Violation("run erased", f"{who} removed the manifest")
            return
        self._whole(after, new, who)
        if old is new:
            return
        if old is None:
            if self.rounds:
                raise Violation("run erased", f"{who} began a run that existed")
            self.rounds[0] = (int(after[names.WEIGHTS]), new.round_id)
        else:
            self._round(before, after, old, new, who)
        self._lease(new, who)
        self._bounded(after, new)

    def _whole(self, tree: Tree, manifest: Manifest, who: str) -> None:
        for wanted in (manifest.weights, manifest.momentum):
            data = tree.get(wanted.name, b"")
            if digest(data.decode()) != wanted.sha256:
                text = f"{who}: {wanted.name} is not of round {manifest.round}"
                raise Violation("torn", text)

    def _round(
        self, before: Tree, after: Tree, old: Manifest, new: Manifest, who: str
    ) -> None:
        if new.run != old.run:
            raise Violation("run erased", f"{who} replaced run {old.run}")
        weights = int(after[names.WEIGHTS])
        if new.round != old.round:
            if not once(weights):
                raise Violation("double count", f"round {new.round} by {who}")
            if new.round in self.rounds:
                raise Violation("fork", f"round {new.round} published twice by {who}")
            self._fold(before, after, new, who)
            self.rounds[new.round] = (weights, new.round_id)
        if told := breaks(old, new):
            raise Violation("fork", f"{who}: {told}")

    def _fold(self, before: Tree, after: Tree, new: Manifest, who: str) -> None:
        if any(name.path not in before for name in new.accepted):
            raise Violation("fold", f"{who}: a listed delta was not on the lane")
        if any(name.path in after for name in new.accepted):
            raise Violation("fold", f"{who}: a counted delta is still waiting")
        ids = {name.id for name in new.accepted}
        if ids & self.counted:
            raise Violation("double count", f"{who}: {ids & self.counted} again")
        self.counted |= ids
        found = [read_delta(before[name.path]) for name in new.accepted]
        start = int(before[names.WEIGHTS]), int(before[names.MOMENTUM])
        wanted = outer(*start, [int(payload) for _, payload in found])
        if wanted != (int(after[names.WEIGHTS]), int(after[names.MOMENTUM])):
            raise Violation("fold", f"{who}: round {new.round} is not its outer step")
        for header, payload in found:
            self.served[header.node] += 1
            held = len(tokens(int(payload)))
            if header.codec == "none" and held != header.inner_steps:
                text = f"{who}: {header.inner_steps} steps announced, {held} in it"
                raise Violation("work", text)
        if self.data_once:
            seen = [self.data[t] for t in tokens(wanted[0]) if t >= FIRST]
            if len(set(seen)) != len(seen):
                raise Violation("data twice", f"round {new.round}")

    def _lease(self, new: Manifest, who: str) -> None:
        holder = self.epochs.setdefault(new.lease.epoch, new.lease.life)
        if holder != new.lease.life:
            raise Violation("two holders", f"epoch {new.lease.epoch}: {holder}, {who}")
        if not who.startswith(holder):
            raise Violation("fence", f"{who} published, {holder} holds the lease")

    def _bounded(self, tree: Tree, manifest: Manifest) -> None:
        limits = manifest.limits
        most = 2 * limits.per_round * limits.window
        if len(manifest.ledger) > most:
            raise Violation("unbounded", f"ledger of {len(manifest.ledger)}")
        kept = {names.kept_round(name) for name in tree} - {None}
        keep = self.keep_rounds
        if keep is not None and len(kept) > 2 * keep + 2:
            raise Violation("unbounded", f"{len(kept)} rounds kept")

    def look_at(self, process: Process) -> None:
        """Called after every event of a process."""
        vectors = process.vectors
        for why, value in process.lost:
            for t in tokens(value):
                self.why.setdefault(t, set()).add(why)
        process.lost.clear()
        if len(process.queue) + len(process.inbox) > MOST_IN_FLIGHT:
            raise Violation("unbounded", f"{process.node}: {process.queue}")
        if process.halted and not self.foreign:
            raise Violation("halted", f"{process.node}: {process.ends}")
        leader = process.master
        if leader and len(leader.candidates) > 5 * leader.settings.limits.per_round:
            raise Violation("unbounded", f"{len(leader.candidates)} deltas held")
        worker = process.worker
        if worker is None or not worker.record.joined:
            return
        truth = self.rounds.get(worker.record.base_round)
        if truth != (vectors.base, worker.record.base_id):
            text = f"{process.node} trains on another base than round"
            raise Violation("torn", f"{text} {worker.record.base_round}")
        if not once(vectors.theta) or not once(vectors.theta + vectors.error):
            raise Violation("double in model", f"{process.node} holds work twice")

    def account(
        self, manifest: Manifest | None, weights: int, used: int, rules: set[str]
    ) -> None:
        """At the end: every token counts, or was given up by a rule that may."""
        if manifest is None:
            return
        counts = tokens(weights)
        for t in range(FIRST, used):
            why = self.why.get(t, set())
            if t not in counts and not why:
                raise Violation("lost", f"token {t}, data {self.data[t]}: in silence")
            if t not in counts and not why <= rules:
                raise Violation("lost", f"token {t} without need: {sorted(why)}")
