"""A worker and its lane: looking, fetching a newer global, sending the pending delta.

Each is asked for again as often as needed, with growing pauses. Nothing that fails
here stops training.
"""

import attrs

from speedtronic.pure.round.audit import apart
from speedtronic.pure.round.events import (
    Effect,
    Failed,
    Fetch,
    Fetched,
    Halt,
    Look,
    Tell,
    Upload,
    View,
)
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.record import fork
from speedtronic.pure.round.roster import Roster, newer
from speedtronic.pure.round.worker_state import (
    Staged,
    Worker,
    WorkerStep,
    may_save,
    retry_s,
)

OLDER_LOOKS = 10  # in a row, before it is told
MAX_HEADERS = 16  # of the own node that are read to find where the data goes on


def looked(state: Worker, now_s: float, view: View) -> WorkerStep:
    """Remember a newer manifest, and see what became of the pending delta."""
    if view.spoiled:
        return unanswered(state, Failed(now_s, Look(), view.spoiled))
    effects: tuple[Effect, ...] = ()
    if state.failures:
        text = f"the lane answers again after {state.failures} failed looks"
        effects = (Tell("info", text),)
    again = now_s + state.settings.poll_s
    state = attrs.evolve(state, looking=False, failures=0, look_at_s=again)
    record, manifest = state.record, view.manifest
    if manifest is None or view.revision is None:
        if state.emptied or (record.run is None and state.settings.begins):
            return state, effects
        text = f"the lane holds no run, this node belongs to {record.run}; it waits"
        if record.run is None:
            text = "the lane holds no run yet; this node waits for a master to begin it"
        return attrs.evolve(state, emptied=True), (*effects, Tell("warning", text))
    if told := fork(record, manifest):
        return attrs.evolve(state, ended="halted"), (*effects, Halt(told))
    if manifest.serial < record.serial:  # never take in an older manifest
        state = attrs.evolve(state, older=state.older + 1)
        if state.older != OLDER_LOOKS:
            return state, effects  # a head that lags
        text = (
            f"the lane is at serial {manifest.serial}, this node has seen "
            f"{record.serial}; it trains on and waits until the run is there again"
        )
        return state, (*effects, Tell("warning", text))
    seen = state.seen
    later = seen is not None and manifest.serial > seen.serial
    if seen and later and (told := apart(seen, manifest)):
        return unanswered(state, Failed(now_s, Look(), told))
    state = attrs.evolve(state, older=0, seen=manifest)
    if told := _left_out(state, manifest.roster):
        asked = newer(manifest.roster, view.proposal)
        if asked and not _left_out(state, view.proposal):
            return state, effects  # its owner has let it in, a leader will say so
        return _outside(state, told, effects)
    state = attrs.evolve(_reconciled(state, now_s, view, manifest), emptied=False)
    if manifest.serial > record.serial:
        state = _staged(state, view.revision, view, manifest)
    return state, effects


def _left_out(state: Worker, roster: Roster | None) -> str:
    """Why a roster does not have this node, in words; empty if it has."""
    node, key = state.settings.node, state.settings.key
    if roster is None or roster.lets_in(node, key):
        return ""
    if roster.member(node) is None:
        return f"node {node} is not in the run's roster"
    return f"the run's roster has another key for node {node}"


def _outside(state: Worker, told: str, effects: tuple[Effect, ...]) -> WorkerStep:
    """Wait to be let in; one who was in before has been put out, and ends."""
    if state.record.joined:
        text = (
            f"{told}; what it trained since its last delta stays here. Its owner lets"
            f" it in again with: speedtronic roster add LANE {state.settings.node}"
            f" {state.settings.key}"
        )
        return attrs.evolve(state, ended="halted"), (*effects, Halt(text))
    if state.left_out:
        return state, effects
    settings = state.settings
    text = (
        f"{told}; it waits until the run's owner says: "
        f"speedtronic roster add LANE {settings.node} {settings.key}"
    )
    return attrs.evolve(state, left_out=True), (*effects, Tell("warning", text))


def fetched(state: Worker, event: Fetched) -> Worker:
    """The staged global is at hand."""
    staged = state.staged and attrs.evolve(
        state.staged, ready=True, cursors=event.cursors
    )
    return attrs.evolve(state, fetching=False, fetch_failures=0, staged=staged)


def uploaded(state: Worker) -> Worker:
    """An upload was answered, perhaps of a delta that is given up by now."""
    pending = state.record.pending
    mine = pending is not None and pending.header.id == state.uploading
    return attrs.evolve(
        state, uploading=None, upload_failures=0, sent=state.sent or mine
    )


def unanswered(state: Worker, event: Failed) -> WorkerStep:
    """A request to the lane failed, or nobody knows."""
    now_s = event.now_s
    if isinstance(event.effect, Look):
        wait_s = max(state.settings.poll_s, retry_s(state, state.failures))
        state = attrs.evolve(
            state,
            looking=False,
            failures=state.failures + 1,
            look_at_s=now_s + wait_s,
        )
        text = f"the lane does not answer ({event.reason}); training goes on"
        return state, (Tell("warning", text),) if state.failures == 1 else ()
    if isinstance(event.effect, Fetch):
        # The revision may be gone for good, so look again rather than insist.
        at_s = now_s + retry_s(state, 0)
        state = attrs.evolve(
            state,
            fetching=False,
            fetch_failures=state.fetch_failures + 1,
            staged=None,
            fetch_at_s=at_s,
            look_at_s=min(state.look_at_s, at_s),
        )
        text = f"the global model cannot be fetched ({event.reason}); trying again"
        news = state.fetch_failures == 1 and not state.failures
        return state, (Tell("warning", text),) if news else ()
    at_s = now_s + retry_s(state, state.upload_failures)
    failures = state.upload_failures + 1
    state = attrs.evolve(
        state, uploading=None, upload_failures=failures, upload_at_s=at_s
    )
    text = f"a delta is not sent yet ({event.reason}); it is tried again"
    news = failures == 1 and not state.failures  # an outage is told by the look
    return state, (Tell("info", text),) if news else ()


def requests(state: Worker, now_s: float) -> WorkerStep:
    """What is due and not in flight."""
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
    at_s = now_s + retry_s(state, state.resends)
    return attrs.evolve(state, sent=False, resends=state.resends + 1, upload_at_s=at_s)


def _staged(state: Worker, revision: str, view: View, manifest: Manifest) -> Worker:
    """Keep a newer manifest until its weights are here and a boundary comes.

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
    record = state.record
    mine = record.pending and record.pending.header.name
    others = [
        d.name for d in view.deltas if d.name.node == record.node and d.name != mine
    ]
    staged = Staged(
        manifest=manifest,
        revision=revision,
        headers=tuple(sorted(others, key=lambda n: n.seq)[-MAX_HEADERS:]),
        ready=manifest.round_id == record.base_id,
    )
    return attrs.evolve(state, staged=staged)
