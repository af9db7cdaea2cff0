"""What a leader knows. Nothing of it is missed when the leader dies.

Momentum, ledger and lease are on the lane, so any node goes on where another one
ended; what is here are settings, clocks and things that can be read again.
"""

from typing import Literal

import attrs

from speedtronic.pure.round import names
from speedtronic.pure.round.admit import Bounds, Broken, Candidate, Decisions
from speedtronic.pure.round.backoff import delay_s
from speedtronic.pure.round.events import Effect
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import File, Manifest, Scalar
from speedtronic.pure.round.roster import Roster


@attrs.frozen(kw_only=True)
class Genesis:
    """The files of round 0."""

    weights: File
    momentum: File
    roster: Roster | None = None  # of a signed run


@attrs.frozen(kw_only=True)
class MasterSettings:
    """What does not change while a process lives."""

    node: str
    life: str  # drawn when the process starts: 16 hex digits
    key: str = ""  # the public key that its manifests are signed with
    lineage: str
    limits: Limits
    outer: tuple[tuple[str, Scalar], ...]  # numbers of the outer step, for readers
    bounds: Bounds
    genesis: Genesis | None = None  # None: this node does not begin a run
    quorum: int = 1  # deltas that a round needs
    least: int = 1  # nodes that its rule needs, whoever closes it
    expected: int = 0  # deltas with which the grace window ends early, if known
    grace_s: float = 30.0  # waited for more, once the quorum is there
    ttl_s: float = 60.0  # without a change of the manifest, others may take over
    keep_rounds: int | None = 10
    poll_s: float = 5.0
    retry_initial_s: float = 1.0
    retry_max_s: float = 60.0


@attrs.frozen(kw_only=True)
class Prepared:
    """A round that was decided, and its files once they are computed."""

    basis: Manifest
    decisions: Decisions
    clipped: tuple[names.DeltaName, ...] = ()  # what the rule makes smaller
    files: tuple[File, File] | None = None


@attrs.frozen(kw_only=True)
class Master:
    """One who leads or would."""

    settings: MasterSettings
    run: str | None = None  # once known, this node never begins another one
    manifest: Manifest | None = None  # the newest seen
    changed_s: float  # when it was first seen, by the own clock
    candidates: tuple[Candidate, ...] = ()
    broken: tuple[Broken, ...] = ()
    swept: frozenset[names.DeltaName] = frozenset()  # garbage that was told of
    prepared: Prepared | None = None
    quorum_s: float | None = None  # since when there is a quorum
    short_s: float | None = None  # since when deltas wait for others; inf: it was told
    looking: bool = False
    inspecting: bool = False
    folding: bool = False
    committing: bool = False
    look_at_s: float
    failures: int = 0  # looks in a row that failed
    lost_races: int = 0  # commits in a row that failed
    spoiled: int = 0  # looks in a row that found no manifest, or an older one
    attempts: int = 0  # commits tried, for their nonces
    drained: bool = False  # a look since the stop found nothing left to decide
    alone: bool = False  # it stops, and nobody else took the lease
    stop_s: float | None = None
    ended: Literal["", "stopped", "halted"] = ""


MasterStep = tuple[Master, tuple[Effect, ...]]


def start_master(
    settings: MasterSettings, now_s: float, run: str | None = None
) -> Master:
    """The state of a process that begins.

    Args:
        settings: of this process.
        now_s: its clock.
        run: the run that this node belongs to, from its checkpoint.

    Raises:
        ValueError: a name or a number is wrong; one line per mistake.
    """
    names.check_node(settings.node)
    names.check_life(settings.life)
    told = settings.limits.problems()
    if not 1 <= settings.quorum <= settings.limits.per_round:
        told.append(
            f"quorum: expected 1 to per_round {settings.limits.per_round}, "
            f"found {settings.quorum}"
        )
    if settings.least > settings.quorum:
        told.append(
            f"quorum: expected at least {settings.least}, the deltas that the rule of "
            f"the rounds needs, found {settings.quorum}"
        )
    if told:
        raise ValueError("\n".join(told))
    return Master(settings=settings, run=run, changed_s=now_s, look_at_s=now_s)


def leads(state: Master) -> bool:
    """Whether the newest manifest seen names this process."""
    manifest, settings = state.manifest, state.settings
    if manifest is None:
        return False
    lease = manifest.lease
    mine = (lease.node, lease.life) == (settings.node, settings.life)
    return mine and not lease.released and may_lead(state, manifest.roster)


def may_lead(state: Master, roster: Roster | None) -> bool:
    """Whether a manifest of this process would be believed."""
    settings = state.settings
    return roster is None or roster.may_lead(settings.node, settings.key)


def nonce(state: Master) -> str:
    """Different in every attempt, so that a manifest found on the lane is mine."""
    return f"{state.settings.life}-{state.attempts}"


def pause_s(state: Master, attempt: int) -> float:
    """Seconds to wait after a number of failures."""
    settings = state.settings
    return delay_s(
        settings.retry_initial_s, settings.retry_max_s, attempt, settings.life
    )
