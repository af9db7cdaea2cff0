"""Whole runs on a lane without any training: random deltas, everything else real.

For testing what reads a run: a replay, a rule of one's own, a page about the run. The
leader is the real one, and so are files, admission, manifests and commits. Time is a
number, so nothing waits.
"""

import random
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from speedtronic.errors import Missing
from speedtronic.pure.delta import Delta, Weights, named
from speedtronic.pure.outer import init_outer
from speedtronic.pure.round import events
from speedtronic.pure.round.admit import Bounds
from speedtronic.pure.round.chain import run_id
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master import (
    Genesis,
    Master,
    MasterSettings,
    master,
    start_master,
)
from speedtronic.pure.round.roster import founded
from speedtronic.pure.round.rule import RoundRule, to_numbers
from speedtronic.pure.tree import tree_map
from speedtronic.shell.distributed.files import payload_of, write_delta
from speedtronic.shell.distributed.leader import Leader, folded
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.distributed.trust import signature_of, signed_roster
from speedtronic.shell.keys import Key
from speedtronic.shell.lanes.base import ANY, Lane

LINEAGE = "1a" * 32
RENAMED = {"w": "model.w"}  # the published file has a name of its own for it
LIMITS = Limits(staleness=3, window=6, per_round=4, strikes=0)
STEPS, TOKENS = 50, 800  # per delta; a node does several times as many now and then
TTL_S, POLL_S = 60.0, 5.0


def recorded_run(
    lane: Lane,
    rounds: int = 4,
    nodes: int = 3,
    seed: int = 0,
    *,
    keep: int | None = None,
    rule: RoundRule | None = None,
    waiting: int = 0,
    keys: Mapping[str, Key] | None = None,
) -> Manifest:
    """Put a run on an empty lane, as if nodes had trained there.

    Some nodes miss some rounds, some deltas are stale; now and then a delta is refused,
    the lease renewed or the leader replaced. The model has parameters of several kinds
    and sizes, and buffers that not every node changes.

    Args:
        lane: without a run.
        rounds: how many rounds are published after round 0.
        nodes: how many nodes deliver, at most 4.
        seed: of everything that is drawn; the same seed gives the same run.
        keep: rounds that are kept at least; None keeps all.
        rule: of the outer step; there must be nodes enough for it.
        waiting: deltas that are still undecided at the end.
        keys: make it a signed run, with the keys of its nodes, as `made_up_keys` gives
            them; the owner's is that of ``node-0``.

    Returns:
        The newest manifest.

    >>> from speedtronic.shell.lanes import parse_lane
    >>> manifest = recorded_run(parse_lane("memory:"), rounds=2)
    >>> manifest.round, len(manifest.accepted) > 0
    (2, True)
    """
    with tempfile.TemporaryDirectory() as folder:
        run = _Run(lane, Path(folder), nodes, seed, keep, rule or RoundRule(), keys)
        for _ in range(rounds):
            run.between()
            run.deliver(run.choice.randint(run.least, nodes))
            run.lead()
        run.deliver(waiting)
        return run.manifest


def made_up_keys(nodes: int = 3) -> dict[str, Key]:
    """The same keys every time; they are no secret.

    >>> sorted(made_up_keys(2))
    ['node-0', 'node-1']
    """
    names = [f"node-{n}" for n in range(nodes)]
    return {name: Key(sha256(name.encode()).digest()) for name in names}


class _Run:
    """A run that is being made up."""

    def __init__(
        self,
        lane: Lane,
        folder: Path,
        nodes: int,
        seed: int,
        keep: int | None,
        rule: RoundRule,
        keys: Mapping[str, Key] | None,
    ) -> None:
        self.choice = random.Random(seed)
        self._draw = torch.Generator().manual_seed(seed)
        self._lane, self._looker, self._folder = lane, Looker(lane), folder
        self._streams = {f"node-{n}": self._word() for n in range(nodes)}
        self._seqs = dict.fromkeys(self._streams, 0)
        weights = Weights(params=self._params(), buffers=self._buffers())
        whole = named(Delta(params=weights.params, buffers=weights.buffers))
        self._bounds = Bounds(payload_bytes=sum(x.nbytes for x in whole.values()))
        self._keep, self._rule = keep, rule
        likes: Weights = tree_map(lambda x: x.to("meta"), weights)
        self._keys = keys or {}
        self._likes = likes
        self._first = init_outer(weights, rule.outer)
        self._now_s = 0.0
        self._master = self._new_leader()
        self.lead()

    @property
    def least(self) -> int:
        """How many deltas a round needs."""
        return self._rule.least

    @property
    def manifest(self) -> Manifest:
        """The newest one."""
        found = self._looker.look().manifest
        if found is None:
            raise Missing("the run has vanished from the lane")
        return found

    def between(self) -> None:
        """What may happen between two rounds."""
        happening = self.choice.choice(["nothing", "renewal", "take-over", "refusal"])
        if happening == "renewal":
            self.lead(seconds=TTL_S / 2)
        elif happening == "take-over":
            self._master = self._new_leader()
            self.lead()
            self.lead(seconds=2 * TTL_S)
        elif happening == "refusal":
            self._deliver(self.choice.choice(list(self._streams)), bad=True)
            self.lead()

    def deliver(self, count: int) -> None:
        """Put deltas of some nodes on the lane."""
        for node in self.choice.sample(list(self._streams), count):
            self._deliver(node)

    def lead(self, seconds: float = POLL_S) -> None:
        """Some time later, let the leader do all that there is to do."""
        self._now_s += seconds
        told: list[events.Event] = [events.Tick(self._now_s)]
        while told:
            self._master, effects = master(self._master, told.pop(0))
            told += [self._perform(effect) for effect in effects if _asks(effect)]

    def _perform(self, effect: events.Effect) -> events.Event:
        now_s = self._now_s
        match effect:
            case events.Inspect():
                held = [candidate.name for candidate in self._master.candidates]
                return events.Inspected(now_s, *self._leader.inspect(effect, held))
            case events.Fold():
                return folded(self._leader.fold(effect), now_s)
            case events.Publish():
                self._leader.publish(effect)
                return events.Published(now_s)
            case _:
                return events.Looked(now_s, self._looker.look())

    def _new_leader(self) -> Master:
        node, life = self.choice.choice(list(self._streams)), self._word()
        folder = self._folder / life
        folder.mkdir()
        key = self._keys.get(node)
        self._leader = Leader(self._lane, folder, self._likes, RENAMED, key=key)
        settings = MasterSettings(
            node=node,
            life=life,
            key=key.public if key else "",
            lineage=LINEAGE,
            limits=LIMITS,
            outer=to_numbers(self._rule),
            bounds=self._bounds,
            genesis=self._genesis(life),
            quorum=self.least,
            least=self.least,
            grace_s=0.0,
            ttl_s=TTL_S,
            keep_rounds=self._keep,
            poll_s=POLL_S,
        )
        return start_master(settings, self._now_s)

    def _genesis(self, life: str) -> Genesis:
        weights, momentum = self._leader.make(self._first)
        if not self._keys:
            return Genesis(weights=weights, momentum=momentum)
        owner = self._keys["node-0"]
        run = run_id(LINEAGE, weights, life, owner.public)
        public = {node: key.public for node, key in self._keys.items()}
        roster = signed_roster(founded(run, owner.public, public), owner)
        return Genesis(weights=weights, momentum=momentum, roster=roster)

    def _deliver(self, node: str, *, bad: bool = False) -> None:
        manifest, stream = self.manifest, self._streams[node]
        register = manifest.register(stream)
        behind = self.choice.choice([0, 0, 1, 2])
        base_round = max(0, manifest.round - behind)
        base_id = manifest.recent_id(base_round)
        delta = self._delta(bad)
        payload = payload_of(delta)
        self._seqs[node] += 1
        work = self.choice.choice([1, 1, 3])
        header = Header(
            run=manifest.run,
            lineage=manifest.lineage,
            node=node,
            stream=stream,
            life=self._word(),
            seq=self._seqs[node],
            after=register.decided if register else None,
            base_round=base_round,
            base_id=base_id or manifest.round_id,
            cursor=STEPS * self._seqs[node],
            inner_steps=work * STEPS,
            tokens=work * TOKENS,
            codec="none",
            payload=payload.sha256,
            payload_bytes=payload.bytes,
        )
        path = self._folder / "delta"
        write_delta(path, delta, header, signature_of(header, self._keys.get(node)))
        self._lane.commit({header.name.path: path}, parent=ANY)
        path.unlink()

    def _delta(self, bad: bool) -> Delta:
        params = self._params()
        if bad:
            params["s"] = torch.tensor(float("nan"))
        buffers = {
            n: x for n, x in self._buffers().items() if self.choice.random() < 0.5
        }
        return Delta(params=params, buffers=buffers)

    def _params(self) -> dict[str, Tensor]:
        """One that is longer than a row, a scalar, an empty and a complex one."""
        return {
            "w": self._normal(200, 200),
            "s": self._normal(),
            "none": self._normal(0),
            "c": torch.view_as_complex(self._normal(5, 2)),
        }

    def _buffers(self) -> dict[str, Tensor]:
        return {
            "mean": self._normal(7).to(torch.bfloat16),
            "count": torch.tensor(self.choice.randrange(99)),
        }

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._draw)

    def _word(self) -> str:
        return f"{self.choice.getrandbits(64):016x}"


def _asks(effect: events.Effect) -> bool:
    """Whether an effect wants an answer."""
    return not isinstance(effect, events.Tell | events.Remember)
