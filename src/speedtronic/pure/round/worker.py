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

from typing import Literal

import attrs

from speedtronic.pure.round import names
from speedtronic.pure.round.backoff import delay_s
from speedtronic.pure.round.events import (
    Boundary,
    Cut,
    CutDone,
    Effect,
    Event,
    Failed,
    Fetch,
    Fetched,
    Halt,
    Install,
    Look,
    Looked,
    Persist,
    Persisted,
    Stop,
    Stopped,
    Tell,
    Upload,
    Uploaded,
    View,
)
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.ledger import position
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.settle import (
    Pending,
    Record,
    Settlement,
    fork,
    rebased,
    settle,
    taken_in,
    undone,
)

MAX_HEADERS = 16  # of the own node that are read to find where the data goes on


@attrs.frozen(kw_only=True)
class WorkerSettings:
    """What does not change while a process lives."""

    node: str
    life: str  # drawn when the process starts: 16 hex digits
    lineage: str
    inner_steps: int | None = 500  # a boundary is due after so many steps
    round_s: float | None = None  # ... or so many seconds
    wait_s: float = 0.0  # pause training so long for the decision on each delta
    carry: bool = True  # keep local progress when the base moves
    reset_optimizer: bool = False  # at each adoption
    codec: str = "none"
    poll_s: float = 60.0
    retry_initial_s: float = 1.0
    retry_max_s: float = 60.0


@attrs.frozen(kw_only=True)
class Staged:
    """A newer manifest that waits for a boundary, and for its weights."""

    manifest: Manifest
    revision: str
    headers: tuple[names.DeltaName, ...]
    ready: bool
    cursors: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class Cutting:
    """What a cut takes along, while its payload is being encoded."""

    steps: int
    tokens: int
    cursor: int
    owed: bool


@attrs.frozen(kw_only=True)
class Worker:
    """A node's line of work: the record is what lasts, the rest is of this process."""

    settings: WorkerSettings
    record: Record
    staged: Staged | None = None
    cutting: Cutting | None = None
    saving: bool = False
    poisoned: bool = False  # a cut was not finite
    sent: bool = False  # the pending delta was seen on the lane, or answered for
    resends: int = 0
    since_s: float  # of the last cut
    wait_until_s: float | None = None
    looking: bool = False
    fetching: bool = False
    uploading: str | None = None  # id of the delta in flight
    look_at_s: float
    fetch_at_s: float
    upload_at_s: float
    failures: int = 0  # looks in a row that failed
    upload_failures: int = 0
    emptied: bool = False  # it was told that the lane is empty
    stop_s: float | None = None
    ended: Literal["", "stopped", "halted"] = ""


Step = tuple[Worker, tuple[Effect, ...]]


def start_worker(
    settings: WorkerSettings, now_s: float, record: Record | None = None
) -> Worker:
    """The state of a process that begins, or goes on from a checkpoint's record.

    Raises:
        ValueError: the record is of another node or lineage, or a name is wrong.
    """
    names.check_node(settings.node)
    names.check_life(settings.life)
    if record is None:
        stream = names.derive(settings.life, "stream", 0)
        record = Record(node=settings.node, lineage=settings.lineage, stream=stream)
    for what in ("node", "lineage"):
        told, found = getattr(settings, what), getattr(record, what)
        if told != found:
            raise ValueError(f"{what}: the checkpoint is of {found}, this is {told}")
    return Worker(
        settings=settings,
        record=record,
        since_s=now_s,
        look_at_s=now_s,
        fetch_at_s=now_s,
        upload_at_s=now_s,
    )


def may_train(state: Worker) -> bool:
    """Whether the next inner step may be taken."""
    going = not state.ended and state.stop_s is None
    return going and state.record.joined and state.wait_until_s is None


def may_save(state: Worker) -> bool:
    """Whether a checkpoint may be taken now, with ``state.record`` in it.

    Not between a cut and the moment when it is durable: a later checkpoint that does
    not know of the pending delta would look like another process of this stream.
    """
    return state.cutting is None and not state.saving


def worker(state: Worker, event: Event) -> Step:
    """Take one event; return the new state and what is to be done."""
    if state.ended:
        return state, ()
    state, effects = _absorb(state, event)
    if state.ended:
        return state, effects
    state, more = _pursue(state, event.now_s)
    return state, effects + more


def _absorb(state: Worker, event: Event) -> Step:
    match event:
        case Looked():
            return _looked(state, event.now_s, event.view)
        case Boundary():
            return _boundary(state, event)
        case Fetched():
            staged = state.staged and attrs.evolve(
                state.staged, ready=True, cursors=event.cursors
            )
            return attrs.evolve(state, fetching=False, staged=staged), ()
        case CutDone():
            return _cut_done(state, event)
        case Persisted():
            return attrs.evolve(state, saving=False), ()
        case Uploaded():
            return _uploaded(state)
        case Failed():
            return _failed(state, event)
        case Stop():
            state = attrs.evolve(state, stop_s=event.deadline_s, wait_until_s=None)
            return _settle_and_cut(state, event.now_s, cursor=None)
        case _:
            return state, ()


# ------------------------------------------------------------------ the lane


def _looked(state: Worker, now_s: float, view: View) -> Step:
    again = now_s + state.settings.poll_s
    effects: tuple[Effect, ...] = ()
    if state.failures:
        effects = (
            Tell("info", f"the lane answers again after {state.failures} tries"),
        )
    state = attrs.evolve(state, looking=False, failures=0, look_at_s=again)
    record, manifest = state.record, view.manifest
    if manifest is None or view.revision is None:
        if record.run is None or state.emptied:
            return state, effects
        text = f"the lane holds no run, this node belongs to {record.run}; it waits"
        return attrs.evolve(state, emptied=True), (*effects, Tell("warning", text))
    if told := fork(record, manifest):
        return attrs.evolve(state, ended="halted"), (*effects, Halt(told))
    if manifest.serial < record.serial:
        return state, effects  # a head that lags; never take in an older manifest
    state = attrs.evolve(_reconciled(state, now_s, view, manifest), emptied=False)
    if manifest.serial > record.serial:
        state = _stage(state, view.revision, view, manifest)
    return state, effects


def _reconciled(state: Worker, now_s: float, view: View, manifest: Manifest) -> Worker:
    """Whether the pending delta has to be sent again.

    Not being listed decides nothing, it may have been accepted and removed. But
    sending the same bytes again is always harmless.
    """
    pending = state.record.pending
    if pending is None:
        return state
    register = manifest.register(pending.header.stream)
    decided = register is not None and register.decided == pending.header.id
    listed = any(d.name == pending.header.name for d in view.deltas)
    if decided or listed:
        return attrs.evolve(state, sent=True)
    if not state.sent:
        return state
    wait = _delay_s(state, state.resends)
    return attrs.evolve(
        state, sent=False, resends=state.resends + 1, upload_at_s=now_s + wait
    )


def _stage(state: Worker, revision: str, view: View, manifest: Manifest) -> Worker:
    """Remember a newer manifest until its weights are here and a boundary comes.

    One whose weights are on their way, or here, stays: if each newer round replaced
    it, a node slower than the rounds would never adopt any.
    """
    staged = state.staged
    if staged and staged.manifest.round_id == manifest.round_id:
        if manifest.serial < staged.manifest.serial:
            return state
        return attrs.evolve(state, staged=attrs.evolve(staged, manifest=manifest))
    if staged and (staged.ready or state.fetching):
        return state
    mine = state.record.pending and state.record.pending.header.name
    others = [
        d.name
        for d in view.deltas
        if d.name.node == state.record.node and d.name != mine
    ]
    new = manifest.round_id != state.record.base_id
    staged = Staged(
        manifest=manifest,
        revision=revision,
        headers=tuple(sorted(others, key=lambda n: n.seq)[-MAX_HEADERS:]),
        ready=not new,
    )
    return attrs.evolve(state, staged=staged)


def _uploaded(state: Worker) -> Step:
    pending = state.record.pending
    mine = pending is not None and pending.header.id == state.uploading
    done = attrs.evolve(state, uploading=None, upload_failures=0)
    return attrs.evolve(done, sent=done.sent or mine), ()


def _failed(state: Worker, event: Failed) -> Step:
    now_s, reason = event.now_s, event.reason
    if event.permanent:
        return attrs.evolve(state, ended="halted"), (Halt(reason),)
    match event.effect:
        case Look():
            wait = max(state.settings.poll_s, _delay_s(state, state.failures))
            first = Tell("warning", f"the lane does not answer ({reason}); going on")
            return (
                attrs.evolve(
                    state,
                    looking=False,
                    failures=state.failures + 1,
                    look_at_s=now_s + wait,
                ),
                () if state.failures else (first,),
            )
        case Fetch():
            # The revision may be gone for good, so look again rather than insist.
            wait = now_s + _delay_s(state, 0)
            state = attrs.evolve(state, fetching=False, staged=None, fetch_at_s=wait)
            return attrs.evolve(state, look_at_s=min(state.look_at_s, wait)), ()
        case Upload():
            wait = now_s + _delay_s(state, state.upload_failures)
            failures = state.upload_failures + 1
            return (
                attrs.evolve(
                    state, uploading=None, upload_failures=failures, upload_at_s=wait
                ),
                (),
            )
        case Cut():
            text = f"no delta could be cut ({reason}); its work stays in the model"
            return _uncut(state), (Tell("error", text),)
        case Persist():
            return _not_persisted(state, reason)
        case _:
            return state, ()


# ------------------------------------------------------------------ boundaries


def _boundary(state: Worker, event: Boundary) -> Step:
    record = state.record
    record = attrs.evolve(
        record,
        unsent_steps=record.unsent_steps + event.steps,
        unsent_tokens=record.unsent_tokens + event.tokens,
    )
    state = attrs.evolve(state, record=record)
    return _settle_and_cut(state, event.now_s, event.cursor)


def _settle_and_cut(state: Worker, now_s: float, cursor: int | None) -> Step:
    """What a boundary is for. A stop has no cursor and cuts at the next boundary."""
    effects: tuple[Effect, ...] = ()
    if may_save(state):
        state, effects = _take_in(state)
        if state.poisoned:
            state, more = _cure(state)
            effects += more
    state = _waited(state, now_s)
    if cursor is not None and may_save(state) and _due(state, now_s):
        record = state.record
        cutting = Cutting(
            steps=record.unsent_steps,
            tokens=record.unsent_tokens,
            cursor=cursor,
            owed=record.owed,
        )
        record = attrs.evolve(record, unsent_steps=0, unsent_tokens=0, owed=False)
        wait_s = state.settings.wait_s if state.stop_s is None else 0.0
        state = attrs.evolve(
            state,
            record=record,
            cutting=cutting,
            since_s=now_s,
            wait_until_s=now_s + wait_s if wait_s else None,
        )
        effects += (Cut(),)
    return state, effects


def _due(state: Worker, now_s: float) -> bool:
    record, settings = state.record, state.settings
    if not record.joined or record.pending or state.poisoned:
        return False
    if not record.unsent_steps and not record.owed:
        return False
    if state.stop_s is not None:
        return True
    enough = settings.inner_steps is not None and (
        record.unsent_steps >= settings.inner_steps
    )
    late = settings.round_s is not None and now_s - state.since_s >= settings.round_s
    return enough or late


def _waited(state: Worker, now_s: float) -> Worker:
    if state.wait_until_s is None:
        return state
    decided = state.record.pending is None and may_save(state)
    if decided or now_s >= state.wait_until_s:
        return attrs.evolve(state, wait_until_s=None, since_s=now_s)
    return state


def _take_in(state: Worker) -> Step:
    staged = state.staged
    if staged is None or not staged.ready:
        return state, ()
    state = attrs.evolve(state, staged=None)
    manifest, old = staged.manifest, state.record
    if manifest.serial <= old.serial:
        return state, ()
    if not old.joined:
        return _join(state, staged)
    settlement = settle(old, manifest)
    moved = manifest.round_id != old.base_id
    pending = old.pending
    install = Install(
        settle=settlement.action,
        inside=pending.inside if pending else True,
        base=manifest.weights if moved else None,
        carry=state.settings.carry,
        reset_optimizer=moved and state.settings.reset_optimizer,
    )
    record = rebased(settlement.record, manifest, state.settings.carry)
    if settlement.leave:
        stream = names.derive(state.settings.life, "stream", manifest.serial)
        record = attrs.evolve(record, stream=stream, known=None, seq=0)
        install = attrs.evolve(
            install, cursor=position(manifest, record.node, staged.cursors)
        )
    state = attrs.evolve(state, record=record)
    if record.pending is None:
        state = attrs.evolve(state, sent=False, resends=0)
    if not moved and settlement.action == "keep":
        return state, ()
    return state, (install, *_told(old, record, settlement))


def _join(state: Worker, staged: Staged) -> Step:
    manifest = staged.manifest
    record = rebased(taken_in(state.record, manifest), manifest, carry=True)
    cursor = position(manifest, record.node, staged.cursors)
    install = Install(settle="drop", base=manifest.weights, carry=False, cursor=cursor)
    text = f"joined run {manifest.run} at round {manifest.round}, data from {cursor}"
    state = attrs.evolve(state, record=record, saving=True)
    return state, (install, Persist(record=record), Tell("info", text))


def _told(old: Record, new: Record, settlement: Settlement) -> tuple[Effect, ...]:
    lines = [settlement.reason] if settlement.reason else []
    if new.base_round != old.base_round:
        lines.append(f"base is now round {new.base_round}")
    held = old.pending.header.inner_steps if old.pending else 0
    gone = old.unsent_steps + held - new.unsent_steps
    if settlement.action == "drop":
        lines.append(f"{gone} steps of work are dropped")
        return (Tell("error", "; ".join(lines)),)
    return (Tell("info", "; ".join(lines)),) if lines else ()


def _cure(state: Worker) -> Step:
    """A local model that is not finite is worth nothing: go on from the base."""
    record = attrs.evolve(state.record, unsent_steps=0, unsent_tokens=0, owed=False)
    text = (
        f"the local model is not finite; {state.record.unsent_steps} steps of work are "
        f"dropped, training goes on from round {record.base_round}"
    )
    state = attrs.evolve(state, record=record, poisoned=False)
    return state, (Install(settle="drop"), Tell("error", text))


# ------------------------------------------------------------------ a cut


def _cut_done(state: Worker, event: CutDone) -> Step:
    cutting, record, settings = state.cutting, state.record, state.settings
    if cutting is None or record.base_id is None or record.run is None:
        return state, ()  # given up in the meantime
    if not event.finite:
        return attrs.evolve(_uncut(state), poisoned=True), ()
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
        inner_steps=cutting.steps,
        tokens=cutting.tokens,
        codec=settings.codec,
        payload=event.payload,
        payload_bytes=event.payload_bytes,
    )
    record = attrs.evolve(
        record, pending=Pending(header=header, owed=cutting.owed), seq=header.seq
    )
    state = attrs.evolve(
        state, record=record, cutting=None, saving=True, sent=False, resends=0
    )
    state = attrs.evolve(state, upload_at_s=event.now_s, upload_failures=0)
    # The record as of the boundary of the cut; steps have been taken since.
    then = attrs.evolve(record, unsent_steps=0, unsent_tokens=0)
    return state, (Persist(record=then),)


def _uncut(state: Worker) -> Worker:
    cutting, record = state.cutting, state.record
    if cutting is None:
        return state
    record = attrs.evolve(
        record,
        unsent_steps=record.unsent_steps + cutting.steps,
        unsent_tokens=record.unsent_tokens + cutting.tokens,
        owed=record.owed or cutting.owed,
    )
    return attrs.evolve(state, record=record, cutting=None)


def _not_persisted(state: Worker, reason: str) -> Step:
    """What is not durable must not be sent: after a crash nobody would know of it."""
    record = undone(state.record)
    text = f"the state of this node could not be saved ({reason})"
    state = attrs.evolve(state, record=record, saving=False)
    return state, (Tell("error", text),)


# ------------------------------------------------------------------ what is due


def _pursue(state: Worker, now_s: float) -> Step:
    if state.stop_s is not None:
        state, ends = _stopping(state, now_s)
        if ends:
            return state, ends
    effects: list[Effect] = []
    if not state.looking and now_s >= state.look_at_s:
        state = attrs.evolve(state, looking=True)
        effects.append(Look())
    staged = state.staged
    if staged and not staged.ready and not state.fetching and now_s >= state.fetch_at_s:
        state = attrs.evolve(state, fetching=True)
        weights = staged.manifest.weights
        effects.append(
            Fetch(revision=staged.revision, weights=weights, headers=staged.headers)
        )
    pending = state.record.pending
    free = state.uploading is None and not state.sent and may_save(state)
    if pending and free and now_s >= state.upload_at_s:
        state = attrs.evolve(state, uploading=pending.header.id)
        effects.append(Upload(pending.header))
    return state, tuple(effects)


def _stopping(state: Worker, now_s: float) -> Step:
    record = state.record
    held = record.unsent_steps > 0 or record.owed
    idle = may_save(state) and (record.pending is None or state.sent)
    if idle and not (held and record.joined):
        done = Stopped(delivered=True, text="everything was delivered")
        return attrs.evolve(state, ended="stopped"), (done,)
    if state.stop_s is None or now_s < state.stop_s:
        return state, ()
    state = _uncut(state)
    steps = state.record.unsent_steps
    waits = 0
    if state.record.pending and not state.sent:
        waits = state.record.pending.header.inner_steps
    text = f"{steps + waits} steps of work are kept here for the next start"
    done = Stopped(delivered=False, text=text)
    return attrs.evolve(state, ended="stopped", saving=False), (done,)


def _delay_s(state: Worker, attempt: int) -> float:
    settings = state.settings
    return delay_s(
        settings.retry_initial_s, settings.retry_max_s, attempt, settings.life
    )
