"""What a worker knows: its settings, what lasts, and what is of this process.

The record is saved with every checkpoint; the rest is found again by looking.
"""

from typing import Literal

import attrs

from speedtronic.pure.round import names
from speedtronic.pure.round.backoff import delay_s
from speedtronic.pure.round.events import Effect
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.record import Record, Work


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
    begins: bool = False  # the leader of this very node begins a run that is not there
    reset_optimizer: bool = False  # at each adoption
    codec: str = "none"
    key: str = ""  # the public key that its deltas are signed with
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

    fresh: Work
    owed: Work
    cursor: int


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
    fetch_failures: int = 0  # in a row
    emptied: bool = False  # it was told that the lane is empty
    seen: Manifest | None = None  # the newest that this process believed
    older: int = 0  # looks in a row that found one older than the record's
    left_out: bool = False  # it was told that the roster does not have it
    stop_s: float | None = None
    ended: Literal["", "stopped", "halted"] = ""


WorkerStep = tuple[Worker, tuple[Effect, ...]]


def start_worker(
    settings: WorkerSettings, now_s: float, record: Record | None = None
) -> Worker:
    """The state of a process that begins, or goes on from a checkpoint's record.

    Raises:
        ValueError: the record is of another node or lineage, a name is wrong, or the
            local part of a round has no end.

    >>> settings = WorkerSettings(node="n1", life="ab" * 8, lineage="cd" * 32)
    >>> start_worker(settings, 0.0).record.stream
    '73bea902b98abb7d'
    """
    names.check_node(settings.node)
    names.check_life(settings.life)
    if settings.inner_steps is None and settings.round_s is None:
        raise ValueError("inner_steps or round_s: expected a bound, found neither")
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
    """Whether the next inner step may be taken; not before there is a base on disk.

    While a node's joining is being saved nothing could be cut, so a first round would
    be as much longer as the disk is slow.

    >>> settings = WorkerSettings(node="n1", life="ab" * 8, lineage="cd" * 32)
    >>> may_train(start_worker(settings, 0.0))
    False
    """
    going = not state.ended and state.stop_s is None
    joining = state.saving and state.record.pending is None
    return going and state.record.joined and not joining and state.wait_until_s is None


def may_save(state: Worker) -> bool:
    """Whether a checkpoint may be taken now, with ``state.record`` in it.

    Not between a cut and the moment when it is durable: a later checkpoint that does
    not know of the pending delta would look like another process of this stream.
    """
    return state.cutting is None and not state.saving


def retry_s(state: Worker, attempt: int) -> float:
    """Seconds to wait after a number of failures."""
    settings = state.settings
    return delay_s(
        settings.retry_initial_s, settings.retry_max_s, attempt, settings.life
    )
