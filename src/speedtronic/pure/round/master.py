"""The leader's part of a round: ``master(state, event) -> (state, effects)``.

Every decision is taken on a fresh look at the lane and committed on exactly the
revision that was looked at. After any answer, success included, it looks again: an
answer may be lost, late or wrong, the manifest at the head is not.

Whoever the manifest names may publish. Another one takes over when, by its own
clock, the manifest has not changed for a while. Two who both believe to lead do no
harm, for the commit of one of them fails. The lease saves work, it is not what makes
rounds safe.

Deliberately absent: state that is lost with a leader. Momentum, ledger and lease are
on the lane, so any node can go on where another one died.
"""

from typing import Literal

import attrs

from speedtronic.pure.round import chain, names, retain
from speedtronic.pure.round.admit import Bounds, Broken, Candidate, Decisions, admit
from speedtronic.pure.round.backoff import delay_s, share
from speedtronic.pure.round.events import (
    Effect,
    Event,
    Failed,
    Fold,
    Folded,
    Halt,
    Inspect,
    Inspected,
    Look,
    Looked,
    Publish,
    Published,
    Remember,
    Stop,
    Stopped,
    Tell,
    View,
)
from speedtronic.pure.round.manifest import (
    FILES_PER_COMMIT,
    File,
    Limits,
    Manifest,
    Scalar,
)

RENEWALS_PER_TTL = 3  # with fewer, a slow commit would look like a death
JITTER = 0.1  # of the ttl, so that two who wait do not take over together
FREE_RETRIES = 8  # lost races before it waits between two attempts
CANDIDATES_PER_ROUND = 4  # times per_round: how many deltas are held in memory


@attrs.frozen(kw_only=True)
class Genesis:
    """The files of round 0."""

    weights: File
    momentum: File


@attrs.frozen(kw_only=True)
class MasterSettings:
    """What does not change while a process lives."""

    node: str
    life: str  # drawn when the process starts: 16 hex digits
    lineage: str
    limits: Limits
    outer: tuple[tuple[str, Scalar], ...]  # numbers of the outer step, for readers
    bounds: Bounds
    genesis: Genesis | None = None  # None: this node does not begin a run
    quorum: int = 1  # deltas that a round needs
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
    prepared: Prepared | None = None
    quorum_s: float | None = None  # since when there is a quorum
    looking: bool = False
    inspecting: bool = False
    folding: bool = False
    committing: bool = False
    look_at_s: float
    failures: int = 0
    lost_races: int = 0  # commits in a row that failed
    drained: bool = False  # while stopping: nothing is left to decide
    attempts: int = 0  # commits tried, for their nonces
    stop_s: float | None = None
    ended: Literal["", "stopped", "halted"] = ""


Step = tuple[Master, tuple[Effect, ...]]


def start_master(
    settings: MasterSettings, now_s: float, run: str | None = None
) -> Master:
    """The state of a process that begins.

    Args:
        settings: of this process.
        now_s: its clock.
        run: the run that this node belongs to, from its checkpoint.

    Raises:
        ValueError: a name or a limit is wrong; one line per mistake.
    """
    names.check_node(settings.node)
    names.check_life(settings.life)
    if told := settings.limits.problems():
        raise ValueError("\n".join(told))
    return Master(settings=settings, run=run, changed_s=now_s, look_at_s=now_s)


def leads(state: Master) -> bool:
    """Whether the newest manifest seen names this process."""
    manifest, settings = state.manifest, state.settings
    if manifest is None:
        return False
    lease = manifest.lease
    return (lease.node, lease.life) == (settings.node, settings.life)


def master(state: Master, event: Event) -> Step:
    """Take one event; return the new state and what is to be done."""
    if state.ended:
        return state, ()
    state, effects = _absorb(state, event)
    if state.ended:
        return state, effects
    state, more = _pursue(state, event.now_s)
    return state, effects + more


def _absorb(state: Master, event: Event) -> Step:
    match event:
        case Looked():
            state = attrs.evolve(state, looking=False)
            return _looked(state, event.now_s, event.view)
        case Inspected():
            return _inspected(state, event), ()
        case Folded():
            prepared = state.prepared and attrs.evolve(
                state.prepared, files=(event.weights, event.momentum)
            )
            return attrs.evolve(
                _soon(state, event), folding=False, prepared=prepared
            ), ()
        case Published():
            return attrs.evolve(_soon(state, event), committing=False, failures=0), ()
        case Failed():
            return _failed(state, event)
        case Stop():
            return attrs.evolve(_soon(state, event), stop_s=event.deadline_s), ()
        case _:
            return state, ()


def _soon(state: Master, event: Event) -> Master:
    """Look at once: the next decision needs a fresh look."""
    return attrs.evolve(state, look_at_s=event.now_s)


# ------------------------------------------------------------------ a look


def _looked(state: Master, now_s: float, view: View) -> Step:
    settings = state.settings
    effects: tuple[Effect, ...] = ()
    if state.failures:
        effects = (Tell("info", "the lane answers again"),)
    state = attrs.evolve(state, failures=0, look_at_s=now_s + settings.poll_s)
    manifest = view.manifest
    if manifest is None:
        state, more = _begin(state, view)
        return state, effects + more
    if told := _foreign(state, manifest):
        return attrs.evolve(state, ended="halted"), (*effects, Halt(told))
    seen = state.manifest
    if seen and manifest.serial < seen.serial:
        return state, effects  # a head that lags; never take in an older manifest
    held = leads(state)
    if seen is None or manifest.id != seen.id:
        state = attrs.evolve(
            state, manifest=manifest, run=manifest.run, changed_s=now_s
        )
        effects += _news(seen, manifest, held, leads(state))
        effects += () if seen else (Remember(manifest.run),)
    state = _forget(state, view, manifest)
    state, more = (_lead if leads(state) else _watch)(state, now_s, view, manifest)
    return state, effects + more


def _foreign(state: Master, manifest: Manifest) -> str:
    """Why the lane holds another history; empty when it does not."""
    lineage, seen = state.settings.lineage, state.manifest
    if manifest.lineage != lineage:
        return (
            f"the lane holds a run of lineage {manifest.lineage}, this node's config "
            f"is lineage {lineage}"
        )
    if state.run not in (None, manifest.run):
        return f"the lane holds run {manifest.run}, this node belongs to {state.run}"
    if seen is None or manifest.serial < seen.serial:
        return ""
    if manifest.serial == seen.serial and manifest.id != seen.id:
        return f"serial {seen.serial} was {seen.id}, now {manifest.id}"
    if manifest.round < seen.round:
        return f"the run went back from round {seen.round} to {manifest.round}"
    known = manifest.recent_id(seen.round)
    if known not in (None, seen.round_id):
        return f"round {seen.round} was {seen.round_id}, now {known}"
    return ""


def _begin(state: Master, view: View) -> Step:
    """An empty lane, as it answered itself; an outage never looks like this.

    A node that has known a run does not begin another one: the lane may have been
    emptied by mistake, or be another lane.
    """
    settings = state.settings
    genesis = settings.genesis
    if state.run is not None or genesis is None or state.stop_s is not None:
        return state, ()
    manifest = chain.genesis(
        lineage=settings.lineage,
        limits=settings.limits,
        outer=settings.outer,
        weights=genesis.weights,
        momentum=genesis.momentum,
        node=settings.node,
        life=settings.life,
        nonce=_nonce(state),
    )
    kept = retain.plan(
        round=0, accepted=(), keep=settings.keep_rounds, listing=(), budget=0
    )
    return _commit(state, view, manifest, fresh=True, copies=kept.copies)


def _watch(state: Master, now_s: float, view: View, manifest: Manifest) -> Step:
    """Somebody else leads; take over when nothing has changed for too long."""
    settings = state.settings
    state = attrs.evolve(state, prepared=None, quorum_s=None)
    patience_s = settings.ttl_s * (1 + JITTER * share(settings.life))
    if state.stop_s is not None or now_s - state.changed_s < patience_s:
        return state, ()
    taken = chain.taken_over(manifest, settings.node, settings.life, _nonce(state))
    return _commit(state, view, taken)


def _lead(state: Master, now_s: float, view: View, manifest: Manifest) -> Step:
    """Publish what is prepared, or decide, or renew: at most one commit per look."""
    prepared = state.prepared
    if prepared and prepared.files:
        return _publish(state, view, manifest, prepared, prepared.files)
    state, effects = _inspect(state, view, manifest)
    due_s = state.settings.ttl_s / RENEWALS_PER_TTL
    renew = now_s - state.changed_s >= due_s
    if prepared:  # being computed, perhaps for longer than a lease lasts
        if not renew:
            return state, effects
        alive = chain.decided(manifest, (), (), _nonce(state), None)
        state, more = _commit(state, view, alive)
        return state, effects + more
    decisions = admit(manifest, state.candidates, state.settings.bounds)
    garbage = (*decisions.garbage, *state.broken)
    decisions = attrs.evolve(decisions, garbage=garbage)
    state = _quorum(state, now_s, decisions)
    if _closes(state, now_s, manifest, decisions) and not state.folding:
        state = attrs.evolve(
            state,
            prepared=Prepared(basis=manifest, decisions=decisions),
            folding=True,
            quorum_s=None,
        )
        fold = Fold(
            revision=view.revision or "",
            manifest=manifest,
            accepted=decisions.accepted,
        )
        return state, (*effects, fold)
    if decisions.refused or renew:
        state, more = _publish_refusals(state, view, manifest, decisions)
        return state, effects + more
    drained = not (state.inspecting or state.folding or decisions.accepted)
    return attrs.evolve(state, drained=drained), effects


def _quorum(state: Master, now_s: float, decisions: Decisions) -> Master:
    if len(decisions.accepted) < state.settings.quorum:
        return attrs.evolve(state, quorum_s=None)
    if state.quorum_s is None:
        return attrs.evolve(state, quorum_s=now_s)
    return state


def _closes(
    state: Master, now_s: float, manifest: Manifest, decisions: Decisions
) -> bool:
    """Whether the round ends with these deltas.

    With the quorum there is a grace window for the others, which ends early when
    every stream that counted in the last two rounds has delivered.
    """
    accepted = {c.name.stream for c in decisions.accepted}
    if not accepted:
        return False
    if state.stop_s is not None or len(accepted) >= manifest.limits.per_round:
        return True
    if state.quorum_s is None:
        return False
    if now_s - state.quorum_s >= state.settings.grace_s:
        return True
    active = {
        r.stream
        for r in manifest.ledger
        if r.verdict == "accepted" and r.round >= manifest.round - 1
    }
    return bool(active) and active <= accepted


# ------------------------------------------------------------------ commits


def _publish(
    state: Master,
    view: View,
    manifest: Manifest,
    prepared: Prepared,
    files: tuple[File, File],
) -> Step:
    decisions = prepared.decisions
    new = chain.decided(
        manifest,
        decisions.accepted_registers(manifest),
        decisions.refused_registers(manifest),
        _nonce(state),
        files,
    )
    consumed = tuple(c.name.path for c in decisions.accepted)
    # Manifest, weights, momentum, and two of each delta: its end and its copy.
    room = FILES_PER_COMMIT - 3 - 2 * len(consumed)
    kept = retain.plan(
        round=new.round,
        accepted=new.accepted,
        keep=state.settings.keep_rounds,
        listing=view.kept,
        budget=room // 2,
    )
    room -= len(kept.deletes) + len(kept.copies) - len(new.accepted)
    deletes = (*consumed, *kept.deletes, *_rubbish(view, decisions)[: max(0, room)])
    return _commit(state, view, new, fresh=True, copies=kept.copies, deletes=deletes)


def _publish_refusals(
    state: Master, view: View, manifest: Manifest, decisions: Decisions
) -> Step:
    """Refusals, garbage and the lease, without a round.

    A refusal does not wait for a round: until it is published its writer can send
    nothing else.
    """
    refused = decisions.refused_registers(manifest)
    new = chain.decided(manifest, (), refused, _nonce(state), None)
    deletes = _rubbish(view, decisions)[: FILES_PER_COMMIT - 1]
    return _commit(state, view, new, deletes=deletes)


def _rubbish(view: View, decisions: Decisions) -> tuple[str, ...]:
    listed = {d.name for d in view.deltas}
    found = [*(c.name for c, _ in decisions.refused)]
    found += [b.name for b in decisions.garbage]
    return tuple(name.path for name in dict.fromkeys(found) if name in listed)


def _commit(
    state: Master,
    view: View,
    manifest: Manifest,
    *,
    fresh: bool = False,
    copies: tuple[tuple[str, str], ...] = (),
    deletes: tuple[str, ...] = (),
) -> Step:
    state = attrs.evolve(state, committing=True, attempts=state.attempts + 1)
    publish = Publish(
        parent=view.revision,
        manifest=manifest,
        fresh=fresh,
        copies=copies,
        deletes=deletes,
    )
    return state, (publish,)


def _nonce(state: Master) -> str:
    """Different in every attempt, so that a manifest found on the lane is mine."""
    return f"{state.settings.life}-{state.attempts}"


# ------------------------------------------------------------------ deltas


def _inspect(state: Master, view: View, manifest: Manifest) -> Step:
    """Ask for deltas not seen yet, those of the longest unserved streams first."""
    limits, bounds = manifest.limits, state.settings.bounds
    known = {c.name for c in state.candidates} | {b.name for b in state.broken}
    unknown = [d for d in view.deltas if d.name not in known]
    large = [
        Broken(d.name, f"{d.bytes} bytes, at most {bounds.file_bytes} are read")
        for d in unknown
        if d.bytes > bounds.file_bytes
    ]
    most = CANDIDATES_PER_ROUND * limits.per_round
    state = attrs.evolve(state, broken=(*state.broken, *large)[:most])
    room = most - len(state.candidates)
    if state.inspecting or room <= 0:
        return state, ()

    def turn(name: names.DeltaName) -> tuple[int, str, int]:
        register = manifest.register(name.stream)
        return (register.round if register else -1, name.stream, -name.seq)

    small = sorted((d.name for d in unknown if d.bytes <= bounds.file_bytes), key=turn)
    if not small or view.revision is None:
        return state, ()
    wanted = tuple(small[: min(room, limits.per_round)])
    return (
        attrs.evolve(state, inspecting=True),
        (Inspect(revision=view.revision, names=wanted),),
    )


def _inspected(state: Master, event: Inspected) -> Master:
    candidates = {c.name: c for c in (*state.candidates, *event.candidates)}
    broken = {b.name: b for b in (*state.broken, *event.broken)}
    state = attrs.evolve(
        _soon(state, event),
        inspecting=False,
        candidates=tuple(candidates.values()),
        broken=tuple(broken.values()),
    )
    return state


def _forget(state: Master, view: View, manifest: Manifest) -> Master:
    """Drop what a fresh look made untrue.

    A prepared round stays if only the lease changed since. Otherwise somebody
    decided in the meantime, and what was computed is of a round that is over.
    """
    listed = {d.name for d in view.deltas}
    prepared = state.prepared
    if prepared:
        accepted = {c.name for c in prepared.decisions.accepted}
        if not _same_basis(prepared.basis, manifest) or not accepted <= listed:
            prepared = None
    return attrs.evolve(
        state,
        prepared=prepared,
        candidates=tuple(c for c in state.candidates if c.name in listed),
        broken=tuple(b for b in state.broken if b.name in listed),
    )


def _same_basis(one: Manifest, other: Manifest) -> bool:
    return (one.round_id, one.ledger) == (other.round_id, other.ledger)


# ------------------------------------------------------------------ what is due


def _failed(state: Master, event: Failed) -> Step:
    if event.permanent:
        return attrs.evolve(state, ended="halted"), (Halt(event.reason),)
    settings, first = state.settings, not state.failures
    wait = delay_s(
        settings.retry_initial_s, settings.retry_max_s, state.failures, settings.life
    )
    told: tuple[Effect, ...] = (
        Tell("warning", f"the lane does not answer ({event.reason})"),
    )
    match event.effect:
        case Look():
            state = attrs.evolve(state, looking=False, failures=state.failures + 1)
        case Publish():
            # Perhaps it was applied, perhaps another commit came first: look at once,
            # for the window between look and commit is what races are lost in.
            lost = state.lost_races + 1
            state = attrs.evolve(state, committing=False, lost_races=lost)
            if lost <= FREE_RETRIES:
                return _soon(state, event), ()
            told = ()
        case Inspect():
            state = attrs.evolve(state, inspecting=False)
            told = ()
        case Fold():
            state = attrs.evolve(state, folding=False, prepared=None)
            told = (Tell("warning", f"a round was not computed ({event.reason})"),)
        case _:
            return state, ()
    state = attrs.evolve(state, look_at_s=event.now_s + wait)
    return state, told if first else ()


def _pursue(state: Master, now_s: float) -> Step:
    if state.stop_s is not None:
        late = now_s >= state.stop_s
        idle = not (state.committing or state.looking or state.folding)
        through = not leads(state) or state.drained
        if late or (idle and through):
            text = "stopped leading" if leads(state) else "did not lead"
            done = Stopped(delivered=through, text=text)
            return attrs.evolve(state, ended="stopped"), (done,)
    busy = state.looking or state.committing
    if not busy and now_s >= state.look_at_s:
        return attrs.evolve(state, looking=True), (Look(),)
    return state, ()


def _news(
    seen: Manifest | None, manifest: Manifest, held: bool, holds: bool
) -> tuple[Effect, ...]:
    told: list[Effect] = []
    if holds and not held:
        told.append(Tell("info", f"leads the run, epoch {manifest.lease.epoch}"))
    if held and not holds:
        other = manifest.lease.node
        told.append(Tell("warning", f"{other} has taken over; stepping down"))
    if seen and manifest.round != seen.round:
        text = f"round {manifest.round}: {len(manifest.accepted)} deltas count"
        told.append(Tell("info", text))
    told += [
        Tell("warning", f"{r.name.node}, delta {r.name.seq}: {r.verdict}, {r.reason}")
        for r in manifest.refused
    ]
    return tuple(told)
