"""The worker's part of a round: ``worker(state, event) -> (state, effects)``.

It cuts the local progress at a boundary into one pending delta, makes it durable,
sends it as often as needed, and takes in newer manifests at step boundaries: first
its own stream is settled, then the base moves under what is left.

Training never waits for the lane, except before the first join and where ``wait_s``
asks for it. What cannot be sent stays in the model as progress and goes out as one
larger delta, so an outage costs neither memory nor work.

Deliberately absent: several deltas in flight. A second one that is not decided loses
work or counts it twice.
"""

import attrs

from speedtronic.pure.round import names
from speedtronic.pure.round.events import (
    Boundary,
    Cut,
    CutDone,
    Effect,
    Event,
    Failed,
    Fetched,
    Halt,
    Install,
    Looked,
    Persist,
    Persisted,
    Stop,
    Stopped,
    Tell,
    Tick,
    Uploaded,
)
from speedtronic.pure.round.ledger import position
from speedtronic.pure.round.record import NONE, Record, Work, taken_in
from speedtronic.pure.round.settle import Settlement, adopt
from speedtronic.pure.round.worker_cut import (
    cut,
    cut_done,
    due,
    not_cut,
    not_persisted,
    uncut,
)
from speedtronic.pure.round.worker_lane import (
    fetched,
    looked,
    requests,
    unanswered,
    uploaded,
)
from speedtronic.pure.round.worker_state import (
    Staged,
    Worker,
    WorkerSettings,
    WorkerStep,
    may_save,
    may_train,
    start_worker,
)

__all__ = [
    "Worker",
    "WorkerSettings",
    "may_save",
    "may_train",
    "start_worker",
    "worker",
]


def worker(state: Worker, event: Event) -> WorkerStep:
    """Take one event; return the new state and what is to be done.

    >>> settings = WorkerSettings(node="n1", life="ab" * 8, lineage="cd" * 32)
    >>> state, effects = worker(start_worker(settings, now_s=7.0), Tick(7.0))
    >>> effects
    (Look(),)
    >>> worker(state, Tick(8.0))[1]  # one look at a time
    ()
    """
    if state.ended:
        return state, ()
    state, effects = _absorbed(state, event)
    if state.stop_s is not None and not state.ended:
        state, more = _stopped(state, event.now_s)
        effects += more
    if state.ended:
        return state, effects
    state, more = requests(state, event.now_s)
    return state, effects + more


def _absorbed(state: Worker, event: Event) -> WorkerStep:
    match event:
        case Boundary():
            return _boundary(state, event)
        case Looked():
            return looked(state, event.now_s, event.view)
        case Fetched():
            return fetched(state, event), ()
        case CutDone():
            return cut_done(state, event)
        case Persisted():
            return attrs.evolve(state, saving=False), ()
        case Uploaded():
            return uploaded(state), ()
        case Failed():
            return _failed(state, event)
        case Stop():
            # The cut comes with the next boundary, which knows the data's cursor.
            return attrs.evolve(state, stop_s=event.deadline_s, wait_until_s=None), ()
        case Tick():
            return state, ()
        case _:
            raise TypeError(f"a worker takes no {type(event).__name__}")


def _failed(state: Worker, event: Failed) -> WorkerStep:
    if event.permanent:
        return attrs.evolve(state, ended="halted"), (Halt(event.reason),)
    if isinstance(event.effect, Cut):
        return not_cut(state, event.reason)
    if isinstance(event.effect, Persist):
        return not_persisted(state, event.reason)
    return unanswered(state, event)


def _boundary(state: Worker, event: Boundary) -> WorkerStep:
    if event.steps:
        fresh = state.record.fresh + Work(event.steps, event.tokens)
        record = attrs.evolve(state.record, fresh=fresh)
        state = attrs.evolve(state, record=record)
    effects: tuple[Effect, ...] = ()
    if may_save(state):  # while a delta is being cut its base stays where it is
        state, effects = _taken_in(state)
        if state.poisoned:
            state, more = _cured(state)
            effects += more
    state = _waited(state, event.now_s)
    if due(state, event.now_s):
        state, more = cut(state, event.now_s, event.cursor)
        effects += more
    return state, effects


def _waited(state: Worker, now_s: float) -> Worker:
    """Go on training once the delta that was waited for is decided, or it is late."""
    if state.wait_until_s is None:
        return state
    decided = state.record.pending is None and may_save(state)
    if decided or now_s >= state.wait_until_s:
        return attrs.evolve(state, wait_until_s=None, since_s=now_s)
    return state


def _taken_in(state: Worker) -> WorkerStep:
    """Settle the own stream by the staged manifest, then move the base."""
    staged, old = state.staged, state.record
    if staged is None or not staged.ready:
        return state, ()
    state = attrs.evolve(state, staged=None)
    manifest = staged.manifest
    if not old.joined:
        return _joined(state, staged)
    settlement = adopt(old, manifest, state.settings.carry)
    moved = manifest.round_id != old.base_id
    install = Install(
        settle=settlement.action,
        inside=old.pending.inside if old.pending else True,
        base=manifest.weights if moved else None,
        carry=state.settings.carry,
        reset_optimizer=moved and state.settings.reset_optimizer,
    )
    record = settlement.record
    if settlement.leave:
        stream = names.derive(state.settings.life, "stream", manifest.serial)
        record = attrs.evolve(record, stream=stream, known=None, seq=0)
        cursor = position(manifest, record.node, staged.cursors)
        install = attrs.evolve(install, cursor=cursor)
    state = attrs.evolve(state, record=record)
    if record.pending is None:
        state = attrs.evolve(state, sent=False, resends=0)
    if not moved and settlement.action == "keep":
        return state, ()
    return state, (install, *_told(old, record, settlement))


def _joined(state: Worker, staged: Staged) -> WorkerStep:
    """Start on the global; a run that this node belongs to is never begun again."""
    manifest = staged.manifest
    record = taken_in(state.record, manifest)
    cursor = position(manifest, record.node, staged.cursors)
    install = Install(settle="drop", base=manifest.weights, carry=False, cursor=cursor)
    text = f"joined run {manifest.run} at round {manifest.round}, data from {cursor}"
    state = attrs.evolve(state, record=record, saving=True)
    return state, (install, Persist(record=record), Tell("info", text))


def _told(old: Record, new: Record, settlement: Settlement) -> tuple[Effect, ...]:
    lines = [settlement.reason] if settlement.reason else []
    if new.base_round != old.base_round:
        lines.append(f"base is now round {new.base_round}")
    if settlement.action != "drop" and old.fresh.steps > new.fresh.steps:
        lines.append(f"{old.fresh.steps} steps after the cut are not carried over")
    if settlement.action == "drop":
        lines.append(f"{_held(old).steps} steps of work are dropped")
        return (Tell("error", "; ".join(lines)),)
    return (Tell("info", "; ".join(lines)),) if lines else ()


def _held(record: Record) -> Work:
    """All work that is not decided."""
    return record.unsent + (record.pending.work if record.pending else NONE)


def _cured(state: Worker) -> WorkerStep:
    """A local model that is not finite is worth nothing: go on from the base."""
    record = attrs.evolve(state.record, fresh=NONE, owed=NONE)
    text = (
        f"the local model is not finite; {state.record.unsent.steps} steps of work are "
        f"dropped, training goes on from round {record.base_round}"
    )
    state = attrs.evolve(state, record=record, poisoned=False)
    return state, (Install(settle="drop"), Tell("error", text))


def _stopped(state: Worker, now_s: float) -> WorkerStep:
    """End when everything is delivered, or at the deadline with the rest kept."""
    record = state.record
    held = record.joined and record.unsent.steps > 0
    through = may_save(state) and (record.pending is None or state.sent)
    if through and not held:
        text = "everything was delivered" if record.joined else "it joined no run"
        done = Stopped(delivered=True, text=text)
        return attrs.evolve(state, ended="stopped"), (done,)
    if state.stop_s is None or now_s < state.stop_s:
        return state, ()
    state = uncut(state)
    left = state.record.unsent if state.sent else _held(state.record)
    text = f"{left.steps} steps of work are kept here for the next start"
    done = Stopped(delivered=False, text=text)
    return attrs.evolve(state, ended="stopped", saving=False), (done,)
