"""What a simulated run is made of, and which faults its schedules may contain."""

from attrs import frozen

from speedtronic.pure.round.limits import Limits

POLL_S = 5.0


@frozen(kw_only=True)
class Scope:
    """Which faults a schedule may contain, and how the run is set up."""

    roles: tuple[str, ...] = ("auto", "worker", "master")  # one node each
    limits: Limits = Limits(staleness=1, window=64, per_round=8)
    inner_steps: int = 2
    carry: bool = True
    codec: str = "none"
    wait_s: float = 0.0
    grace_s: float = 0.0
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
    signed: bool = False  # with a roster, whose owner changes who may lead

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
    "waiting, with grace": Scope(wait_s=30.0, grace_s=POLL_S, old=True),
    "slow uploader": Scope(busy=True, slow=True, keep_rounds=None),
    "one delta per round": Scope(
        roles=("worker", "worker", "worker", "master"),
        limits=Limits(staleness=2, window=400, per_round=1),
        inner_steps=1,
        busy=True,
    ),
    "signed": Scope(signed=True, old=True, fresh=True, bad=True),
    "everything": Scope(
        roles=("auto", "auto", "worker", "master"),
        old=True,
        fresh=True,
        clone=True,
        bad=True,
        codec="half",
    ),
}
