"""The leader's part of a round: ``master(state, event) -> (state, effects)``.

Every decision is taken on a fresh look at the lane and committed on exactly the
revision that was looked at. After any answer, success included, it looks again: an
answer may be lost, late or wrong, the manifest at the head is not.

Whoever the manifest names may publish. Another one takes over when, by its own
clock, the manifest has not changed for a while. Two who both believe to lead do no
harm, for the commit of one of them fails. The lease saves work; it is not what makes
rounds safe.
"""

import attrs

from speedtronic.pure.round.admit import Decisions, admit
from speedtronic.pure.round.audit import apart
from speedtronic.pure.round.backoff import share
from speedtronic.pure.round.chain import differs
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
    Suspected,
    Tell,
    Tick,
    View,
)
from speedtronic.pure.round.gather import forget, inspect, inspected, suspect
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master_state import (
    Genesis,
    Master,
    MasterSettings,
    MasterStep,
    Prepared,
    leads,
    may_lead,
    pause_s,
    start_master,
)
from speedtronic.pure.round.publish import (
    begin,
    close_round,
    enrol,
    refuse_only,
    release,
    renew,
    restore,
    take_over,
)
from speedtronic.pure.round.quorum import closes, counted
from speedtronic.pure.round.roster import changes, newer

__all__ = ["Genesis", "Master", "MasterSettings", "leads", "master", "start_master"]

RENEWALS_PER_TTL = 3  # with fewer, one slow commit would look like a death
JITTER = 0.1  # of the ttl, so that two who wait do not take over together
LEFT_S, LEFT_POLLS = 2.0, 3  # with nobody taking a free lease, nobody else is there
SWEEP = 25  # pieces of garbage that are not left lying until the next renewal
SPOILED_LOOKS = 3  # in a row, before it is no lag
FREE_RETRIES = 8  # lost races before it pauses between two attempts


def master(state: Master, event: Event) -> MasterStep:
    """Take one event; return the new state and what is to be done.

    >>> from speedtronic.pure.round.admit import Bounds
    >>> from speedtronic.pure.round.limits import Limits
    >>> settings = MasterSettings(
    ...     node="n1", life="ab" * 8, lineage="cd" * 32, limits=Limits(), outer=(),
    ...     bounds=Bounds(payload_bytes=1000),
    ... )
    >>> state, effects = master(start_master(settings, now_s=7.0), Tick(7.0))
    >>> effects
    (Look(),)
    """
    if state.ended:
        return state, ()
    state, effects = _absorbed(state, event)
    if state.stop_s is not None and not state.ended:
        state, more = _stopped(state, event.now_s)
        effects += more
    busy = state.looking or state.committing
    if state.ended or busy or event.now_s < state.look_at_s:
        return state, effects
    return attrs.evolve(state, looking=True), (*effects, Look())


def _absorbed(state: Master, event: Event) -> MasterStep:
    now_s = event.now_s  # when an answer comes, the next decision needs a fresh look
    match event:
        case Looked():
            return _looked(state, now_s, event.view)
        case Inspected():
            return attrs.evolve(inspected(state, event), look_at_s=now_s), ()
        case Folded():
            files = (event.weights, event.momentum)
            prepared = state.prepared and attrs.evolve(
                state.prepared, files=files, clipped=event.clipped
            )
            state = attrs.evolve(state, folding=False, prepared=prepared)
            return attrs.evolve(state, look_at_s=now_s), ()
        case Suspected():
            state = attrs.evolve(suspect(state, event), look_at_s=now_s)
            return attrs.evolve(state, folding=False, prepared=None), ()
        case Published():
            state = attrs.evolve(state, committing=False, lost_races=0)
            return attrs.evolve(state, look_at_s=now_s), ()
        case Failed():
            return _failed(state, event)
        case Stop():
            state = attrs.evolve(state, stop_s=event.deadline_s, drained=False)
            return attrs.evolve(state, look_at_s=now_s), ()
        case Tick():
            return state, ()
        case _:
            raise TypeError(f"a leader takes no {type(event).__name__}")


def _looked(state: Master, now_s: float, view: View) -> MasterStep:
    effects: tuple[Effect, ...] = ()
    settings, seen, manifest = state.settings, state.manifest, view.manifest
    again_s = now_s + settings.poll_s
    state = attrs.evolve(state, looking=False, failures=0, look_at_s=again_s)
    if seen and _spoiled(seen, view):
        return _restored(state, now_s, view, seen)
    if manifest is None:
        # An empty lane, as it answered itself; an outage never looks like this. Who
        # has known a run begins no other: this may be another lane, or a mistake.
        if state.run is not None or settings.genesis is None or state.stop_s:
            return attrs.evolve(state, drained=True), effects
        state, more = begin(state, view, settings.genesis)
        return state, effects + more
    if told := _differs(state, manifest):
        return attrs.evolve(state, ended="halted"), (*effects, Halt(told))
    later = seen is not None and manifest.serial > seen.serial
    if seen and later and (told := apart(seen, manifest)):
        return _restored(state, now_s, attrs.evolve(view, spoiled=told), seen)
    state = attrs.evolve(state, spoiled=0)
    if seen is None or manifest.id != seen.id:
        held = leads(state)
        state = attrs.evolve(
            state, manifest=manifest, run=manifest.run, changed_s=now_s
        )
        effects += _news(seen, manifest, held, leads(state))
    state = forget(state, view, manifest)
    state, more = (_lead if leads(state) else _watch)(state, now_s, view, manifest)
    return state, effects + more


def _spoiled(seen: Manifest, view: View) -> bool:
    """Whether a lane that held a run holds none now, or holds it as it was before.

    A head that lags looks like this, too; never take in an older manifest.
    """
    if view.manifest is None or view.spoiled:
        return view.revision is not None
    same = view.manifest.run == seen.run and view.manifest.lineage == seen.lineage
    return same and view.manifest.serial < seen.serial


def _restored(state: Master, now_s: float, view: View, seen: Manifest) -> MasterStep:
    """Put the manifest back, if that is this node's to do and it stays away."""
    state = attrs.evolve(state, spoiled=state.spoiled + 1, prepared=None)
    drained = state.stop_s is not None and not leads(state)
    state = attrs.evolve(state, drained=state.drained or drained)
    if state.spoiled < SPOILED_LOOKS or state.folding:
        return state, ()
    if not leads(state):
        settings = state.settings
        patience_s = settings.ttl_s * (1 + JITTER * share(settings.life))
        if (
            not may_lead(state, seen.roster)
            or drained
            or now_s - state.changed_s < patience_s
        ):
            return state, ()
    why = view.spoiled or "an older manifest, or none, lies there"
    told = Tell("warning", f"the lane was spoiled ({why}); putting the run back")
    state, effects = restore(state, view, seen)
    return state, (told, *effects)


def _differs(state: Master, manifest: Manifest) -> str:
    seen = state.manifest
    return differs(
        manifest,
        lineage=state.settings.lineage,
        run=state.run,
        serial=seen.serial if seen else -1,
        round=seen.round if seen else -1,
        round_id=seen.round_id if seen else None,
    )


def _watch(state: Master, now_s: float, view: View, manifest: Manifest) -> MasterStep:
    """Somebody else leads, or nobody; take over when nothing changes for too long.

    One who is about to stop takes only a lease that was given up, if nobody else does,
    for deltas that would wait for ever, and that are enough for a round.
    """
    settings, released = state.settings, manifest.lease.released
    state = attrs.evolve(state, prepared=None, quorum_s=None)
    asked = view.proposal if newer(manifest.roster, view.proposal) else None
    roster = asked or manifest.roster
    if not may_lead(state, roster):
        return attrs.evolve(state, drained=state.stop_s is not None), ()
    if asked and not asked.may_lead(manifest.lease.node):
        return take_over(state, view, manifest)  # its holder cannot publish that
    if state.stop_s is not None:
        nodes = {listed.name.node for listed in view.deltas}
        if not (released and len(nodes) >= settings.least):
            return attrs.evolve(state, drained=True), ()
        if now_s - state.changed_s < max(LEFT_S, LEFT_POLLS * settings.poll_s):
            return state, ()
        return take_over(attrs.evolve(state, alone=True), view, manifest)
    patience_s = settings.ttl_s * (1 + JITTER * share(settings.life))
    if not released and now_s - state.changed_s < patience_s:
        return state, ()
    return take_over(state, view, manifest)


def _lead(state: Master, now_s: float, view: View, manifest: Manifest) -> MasterStep:
    """Publish what is prepared, or decide, or renew: at most one commit per look."""
    prepared, settings = state.prepared, state.settings
    asked = view.proposal
    if asked and newer(manifest.roster, asked):
        if may_lead(state, asked):
            return enrol(state, view, manifest, asked)
        return release(state, view, manifest)  # it may not sign one without itself
    if prepared and prepared.files:
        return close_round(state, view, manifest, prepared, prepared.files)
    state, effects = inspect(state, view, manifest)
    overdue = now_s - state.changed_s >= settings.ttl_s / RENEWALS_PER_TTL
    if state.folding:  # perhaps for longer than a lease lasts
        state, more = renew(state, view, manifest) if overdue else (state, ())
        return state, effects + more
    needed = max(settings.quorum, settings.least)
    decisions = admit(manifest, state.candidates, settings.bounds, needed)
    garbage = (*decisions.garbage, *state.broken)
    decisions = attrs.evolve(decisions, garbage=garbage)
    state, more = _sorted_out(state, decisions)
    effects += more
    state, more = counted(state, now_s, manifest, decisions)
    effects += more
    if view.revision and closes(state, now_s, manifest, decisions):
        fold = Fold(
            revision=view.revision, manifest=manifest, accepted=decisions.accepted
        )
        prepared = Prepared(basis=manifest, decisions=decisions)
        state = attrs.evolve(state, prepared=prepared, folding=True, quorum_s=None)
        return state, (*effects, fold)
    most = SWEEP if state.stop_s is None else 1
    if decisions.refused or overdue or len(decisions.garbage) >= most:
        state, more = refuse_only(state, view, manifest, decisions)
        return state, effects + more
    if state.stop_s is not None and not state.inspecting:
        # Whoever comes next counts these deltas with those of the others.
        state, more = release(attrs.evolve(state, alone=False), view, manifest)
        effects += more
    return state, effects


def _sorted_out(state: Master, decisions: Decisions) -> MasterStep:
    """Say once of each delta why it cannot count; no manifest will remember it."""
    new = [b for b in decisions.garbage if b.name not in state.swept]
    if not new:
        return state, ()
    state = attrs.evolve(state, swept=state.swept | {b.name for b in new})
    lines = [f"{b.name.node}, delta {b.name.seq}: garbage, {b.reason}" for b in new]
    return state, tuple(Tell("info", line) for line in lines)


def _failed(state: Master, event: Failed) -> MasterStep:
    if event.permanent:
        return attrs.evolve(state, ended="halted"), (Halt(event.reason),)
    now_s = event.now_s
    match event.effect:
        case Look():
            at_s = now_s + pause_s(state, state.failures)
            failures = state.failures + 1
            state = attrs.evolve(
                state, looking=False, failures=failures, look_at_s=at_s
            )
            return state, ()  # the worker of this node tells of an outage
        case Publish():
            # Perhaps it was applied, perhaps another commit came first. Look at once:
            # races are lost in the time between a look and its commit.
            lost = state.lost_races + 1
            wait_s = pause_s(state, lost) if lost > FREE_RETRIES else 0.0
            state = attrs.evolve(state, committing=False, lost_races=lost)
            return attrs.evolve(state, look_at_s=now_s + wait_s), ()
        case Inspect():
            return attrs.evolve(state, inspecting=False), ()
        case _:  # a fold
            state = attrs.evolve(state, folding=False, prepared=None)
            told = f"a round could not be computed ({event.reason}); once more"
            return state, (Tell("warning", told),)


def _stopped(state: Master, now_s: float) -> MasterStep:
    """End when nothing is left to decide, or somebody else is there to do it."""
    idle = not (state.committing or state.looking or state.folding)
    through = idle and state.drained and not leads(state)
    if not through and state.stop_s is not None and now_s < state.stop_s:
        return state, ()
    lease = state.manifest.lease if state.manifest else None
    mine = lease is not None and lease.life == state.settings.life
    text = "gave the lead up" if mine else "did not lead"
    if leads(state):
        text = "still holds the lease; others can lead once it expires"
    done = Stopped(delivered=through, text=text)
    return attrs.evolve(state, ended="stopped"), (done,)


def _news(
    seen: Manifest | None, manifest: Manifest, held: bool, holds: bool
) -> tuple[Effect, ...]:
    told: list[Effect] = [] if seen else [Remember(manifest.run)]
    if holds and not held:
        told.append(Tell("info", f"leads the run, epoch {manifest.lease.epoch}"))
    if held and not holds and not manifest.lease.released:
        text = f"{manifest.lease.node} has taken over; stepping down"
        told.append(Tell("warning", text))
    if manifest.lease.released and not (seen and seen.lease.released):
        told.append(Tell("info", f"{manifest.lease.node} has given the lead up"))
    if seen and manifest.round != seen.round:
        count = len(manifest.accepted)
        what = "1 delta counts" if count == 1 else f"{count} deltas count"
        text = f"round {manifest.round}: {what}"
        told.append(Tell("info", text))
    if seen:
        told += [Tell("info", line) for line in changes(seen.roster, manifest.roster)]
    told += [
        Tell("warning", f"{s.node} is set aside up to round {s.until}: {s.reason}")
        for s in manifest.standings
        if s.until > manifest.round and not (seen and s in seen.standings)
    ]
    told += [
        Tell("warning", f"{r.name.node}, delta {r.name.seq}: {r.verdict}, {r.reason}")
        for r in manifest.refused
    ]
    return tuple(told)
