"""A worker's cut: from a boundary that is due to a pending delta on disk.

The steps are `Cut` (copy and encode), then `Persist`, then the first upload. Between
the first two nothing of it may be saved or sent, and no base may move.
"""

import attrs

from speedtronic.pure.pace import boundary_due
from speedtronic.pure.round.events import Cut, CutDone, Persist, Tell
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.record import NONE, Pending
from speedtronic.pure.round.settle import undone
from speedtronic.pure.round.worker_state import Cutting, Worker, WorkerStep, may_save


def due(state: Worker, now_s: float) -> bool:
    """Whether this boundary ends the local part of a round.

    A boundary that falls due while a delta is pending is skipped; as soon as that one
    is decided, everything since its cut goes out as one delta.
    """
    record, settings = state.record, state.settings
    if not record.joined or record.pending or state.poisoned or not may_save(state):
        return False
    steps = record.unsent.steps
    if state.stop_s is not None:
        return steps > 0
    return boundary_due(
        steps,
        now_s - state.since_s,
        every_steps=settings.inner_steps,
        every_s=settings.round_s,
    )


def cut(state: Worker, now_s: float, cursor: int) -> WorkerStep:
    """Take all progress that is in no delta yet."""
    record = state.record
    cutting = Cutting(fresh=record.fresh, owed=record.owed, cursor=cursor)
    record = attrs.evolve(record, fresh=NONE, owed=NONE)
    wait_s = state.settings.wait_s if state.stop_s is None else 0.0
    state = attrs.evolve(
        state,
        record=record,
        cutting=cutting,
        since_s=now_s,
        wait_until_s=now_s + wait_s if wait_s else None,
    )
    return state, (Cut(),)


def cut_done(state: Worker, event: CutDone) -> WorkerStep:
    """The payload is encoded: name it, and have it saved."""
    cutting, record, settings = state.cutting, state.record, state.settings
    if cutting is None or record.base_id is None or record.run is None:
        return state, ()  # given up in the meantime
    if not event.finite:
        return attrs.evolve(uncut(state), poisoned=True), ()
    work = cutting.fresh + cutting.owed
    header = Header(
        run=record.run,
        lineage=record.lineage,
        node=record.node,
        stream=record.stream,
        life=settings.life,
        seq=record.seq + 1,
        after=record.known.decided if record.known else None,
        base_round=record.base_round,
        base_id=record.base_id,
        cursor=cutting.cursor,
        inner_steps=work.steps,
        tokens=work.tokens,
        codec=settings.codec,
        payload=event.payload,
        payload_bytes=event.payload_bytes,
    )
    pending = Pending(header=header, owed=cutting.owed)
    record = attrs.evolve(record, pending=pending, seq=header.seq)
    state = attrs.evolve(
        state,
        record=record,
        cutting=None,
        saving=True,
        sent=False,
        resends=0,
        upload_at_s=event.now_s,
        upload_failures=0,
    )
    # The record as of the boundary of the cut; steps have been taken since.
    then = attrs.evolve(record, fresh=NONE)
    return state, (Persist(record=then),)


def uncut(state: Worker) -> Worker:
    """Nothing was cut: the work is in the model, as it was before."""
    cutting, record = state.cutting, state.record
    if cutting is None:
        return state
    record = attrs.evolve(
        record, fresh=record.fresh + cutting.fresh, owed=record.owed + cutting.owed
    )
    return attrs.evolve(state, record=record, cutting=None)


def not_cut(state: Worker, reason: str) -> WorkerStep:
    """The payload could not be made."""
    text = f"no delta could be cut ({reason}); its work stays in the model"
    return uncut(state), (Tell("error", text),)


def not_persisted(state: Worker, reason: str) -> WorkerStep:
    """What is not durable must not be sent: after a crash nobody would know of it."""
    text = f"the state of this node could not be saved ({reason})"
    state = attrs.evolve(state, record=undone(state.record), saving=False)
    return state, (Tell("error", text),)
