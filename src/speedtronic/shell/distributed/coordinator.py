"""The threads between the round's machines, the lane and the training.

Background threads perform effects. The training thread only hands over a copy of its
model when a delta is cut, and installs what is ready, both at a step boundary; it
never waits for the lane. One lock guards the machines, whose steps are short.

Vectors have one owner at a time: the training thread, except between a cut and the
moment when it is encoded, when nothing may be installed (`may_save`).

Bounded: a machine has at most one effect of a kind in flight, hence there are as many
threads; they are daemons, so that a lane that hangs cannot keep the process alive.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs
from torch import Tensor

from speedtronic.errors import (
    Corrupt,
    Denied,
    LaneError,
    SpeedtronicError,
    TrainingError,
)
from speedtronic.pure.delta import Weights
from speedtronic.pure.progress import Progress, cut, install
from speedtronic.pure.round import events as e
from speedtronic.pure.round import record as records
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master import Master, leads, master
from speedtronic.pure.round.record import Record
from speedtronic.pure.round.worker import Worker, may_save, may_train, worker
from speedtronic.shell.distributed.files import payload_of
from speedtronic.shell.distributed.follower import Follower
from speedtronic.shell.distributed.leader import Leader, folded
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.distributed.pacing import Pace
from speedtronic.shell.distributed.saved import KEY, to_tensors

logger = logging.getLogger(__name__)
TICK_S = 0.1  # how exactly the machines keep their times
MOST_EVENTS = 1000  # kept until the training thread asks for them
LAST_LOOK_S = 1.0  # left to a leader when its worker has used up the time to stop


@attrs.frozen(kw_only=True, eq=False)
class HandedOver:
    """A copy of everything that a checkpoint holds beside the round's part."""

    weights: Weights  # of the model in it, on the CPU
    save: Callable[[Mapping[str, Any], Mapping[str, Tensor]], None]  # with the rest


class Training(Protocol):
    """What the coordinator asks of the training thread, at a boundary."""

    def weights(self) -> Weights:
        """The model as it is, on the CPU; it may share memory with it."""

    def install(
        self, weights: Weights | None, cursor: int | None, reset_optimizer: bool
    ) -> None:
        """Go on with other weights (copy them), at another place in the data."""

    def hand_over(self) -> HandedOver:
        """Copy the state as it is now."""


@attrs.frozen(kw_only=True, eq=False)
class _AtCut:
    """What belongs to the boundary at which a delta was cut, or a run joined."""

    progress: Progress
    handed: HandedOver


@attrs.frozen(kw_only=True, eq=False)
class Parts:
    """What the machines' effects are performed with."""

    looker: Looker
    follower: Follower
    leader: Leader | None
    remember: Callable[[str], None]  # keeps the run's id in the run directory
    published: Callable[[e.Publish], None] = lambda _: None  # after each manifest
    changed: Callable[["Coordinator"], None] = lambda _: None  # told now and then
    close: Callable[[], None] = lambda: None  # ends every wait of the lane


class Coordinator:
    """A node's part in a run; use it as a context manager.

    Args:
        parts: to work with.
        follows: the worker's first state.
        leader: the first state of one who may lead, else None.
        progress: from the checkpoint that the worker's record came from.
        dynamic_steps: take fewer inner steps than the fastest node, as this one is
            slower.
    """

    def __init__(
        self,
        parts: Parts,
        follows: Worker,
        leader: Master | None,
        progress: Progress | None,
        *,
        dynamic_steps: bool = False,
    ) -> None:
        self.worker, self.master = follows, leader
        self._pace = Pace(follows.settings.inner_steps if dynamic_steps else None)
        self.progress = progress
        self.halted = ""  # why a person has to look
        self._parts = parts
        self._at_cut: _AtCut | None = None
        self._fetched: dict[str, Weights] = {}  # by sha256, at most one
        self._news = threading.Condition(threading.RLock())
        self._events: list[tuple[str, dict[str, Any]]] = []
        self._closed = False
        self._threads: set[threading.Thread] = set()
        self._clock = threading.Thread(target=self._tick, name="round", daemon=True)

    def __enter__(self) -> "Coordinator":
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()
            threads = {self._clock, *self._threads}
        self._parts.close()
        for thread in threads:  # what hangs is left behind
            thread.join(timeout=1.0)
        self._parts.changed(self)  # how it ended

    # ------------------------------------------------- for the training thread

    @property
    def may_train(self) -> bool:
        """Whether the next inner step may be taken."""
        with self._news:
            return may_train(self.worker)

    @property
    def may_save(self) -> bool:
        """Whether a checkpoint may be taken now, with `saved` in it."""
        with self._news:
            return may_save(self.worker)

    @property
    def stopped(self) -> bool:
        """Whether both machines have ended."""
        with self._news:
            return bool(self.worker.ended and (not self.master or self.master.ended))

    def wait(self, seconds: float) -> None:
        """Until something has changed, but no longer than so many seconds."""
        with self._news:
            self._news.wait(seconds)

    def boundary(
        self, training: Training, *, steps: int, tokens: int, cursor: int
    ) -> None:
        """Between two inner steps: hand over a cut, take in a newer global.

        Args:
            training: this thread's side.
            steps: finished since the last boundary.
            tokens: counted in them.
            cursor: where the node's data goes on.

        Raises:
            TrainingError: a person has to look.
        """
        with self._news:
            if self.halted:
                raise TrainingError(self.halted)
            event = e.Boundary(time.monotonic(), steps, tokens, cursor)
            staged = self.worker.staged
            self.worker, effects = worker(self.worker, event)
            if staged is not None and staged is not self.worker.staged:
                self._keep_pace(staged.manifest)
        for effect in effects:
            match effect:
                case e.Install():
                    self._install(training, effect)
                    round = self.worker.record.base_round
                    self._note("outer_step", round=round, settled=effect.settle)
                case e.Cut() | e.Persist():  # a node that has just joined persists
                    assert self.progress is not None
                    handed = training.hand_over()
                    self._at_cut = _AtCut(progress=self.progress, handed=handed)
                    self._perform("worker", effect)
                case _:
                    self._take("worker", effect)
        self._pass_on()

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """What happened since this was asked last, for the run's metrics file."""
        with self._news:
            found, self._events = self._events, []
        return found

    def saved(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The round's part of a checkpoint taken now; ask `may_save` first."""
        with self._news:
            record = self.worker.record
        return _saved(record, self.progress)

    def stop(self, within_s: float) -> None:
        """Deliver what can be delivered within so many seconds; boundaries go on."""
        now_s = time.monotonic()
        self._tell("worker", e.Stop(now_s, now_s + within_s))

    def _install(self, training: Training, effect: e.Install) -> None:
        base = None
        if effect.base is not None:
            base = self._fetched.pop(effect.base.sha256)
        if self.progress is None:  # joins: what it had before belongs to no run
            assert base is not None
            self.progress = Progress(base=base)
            training.install(base, effect.cursor, reset_optimizer=False)
            return
        self.progress, model = install(self.progress, training.weights(), effect, base)
        training.install(model, effect.cursor, effect.reset_optimizer)

    def _keep_pace(self, manifest: Manifest) -> None:
        """Adapt the number of inner steps to how far the others came meanwhile."""
        settings = self.worker.settings
        steps = self._pace.steps(manifest, self.worker.record.stream)
        if steps is not None and steps != settings.inner_steps:
            logger.info("deltas of %d steps from now on", steps)
            settings = attrs.evolve(settings, inner_steps=steps)
            self.worker = attrs.evolve(self.worker, settings=settings)

    # ---------------------------------------------------------- in any thread

    def _tell(self, machine: str, event: e.Event) -> None:
        with self._news:
            state = getattr(self, machine)
            if state is None:
                return
            step = worker if machine == "worker" else master
            state, effects = step(state, event)
            setattr(self, machine, state)
            self._news.notify_all()
        for effect in effects:
            self._take(machine, effect)
        self._pass_on()

    def _pass_on(self) -> None:
        """Stop leading once the own last delta is on the lane, or never will be."""
        with self._news:
            follows, leader = self.worker, self.master
            if follows.ended != "stopped" or leader is None or leader.stop_s:
                return
            now_s = time.monotonic()
            stop_s = max(now_s + LAST_LOOK_S, follows.stop_s or 0.0)
        self._tell("master", e.Stop(now_s, stop_s))

    def _note(self, kind: str, **fields: Any) -> None:
        with self._news:
            self._events = [*self._events, (kind, fields)][-MOST_EVENTS:]

    def _take(self, machine: str, effect: e.Effect) -> None:
        match effect:
            case e.Tell():
                level = logging.getLevelName(effect.level.upper())
                logger.log(level, "%s", effect.text)
            case e.Halt():
                with self._news:
                    self.halted = effect.reason
                    self._news.notify_all()
            case e.Stopped():
                logger.info("%s", effect.text)
            case e.Remember():
                self._parts.remember(effect.run)
            case _:
                self._perform(machine, effect)

    def _perform(self, machine: str, effect: e.Effect) -> None:
        """Do an effect in a thread of its own and tell the machine what came of it."""
        thread = threading.Thread(
            target=self._answer,
            args=(machine, effect),
            name=f"round-{type(effect).__name__.lower()}",
            daemon=True,
        )
        with self._news:
            if self._closed:
                return
            self._threads.add(thread)
            thread.start()

    def _answer(self, machine: str, effect: e.Effect) -> None:
        try:
            event = self._do(effect)
        except Denied as error:
            event = e.Failed(time.monotonic(), effect, str(error), permanent=True)
        except SpeedtronicError as error:
            event = e.Failed(time.monotonic(), effect, str(error))
            if isinstance(effect, e.Fetch) and isinstance(error, Corrupt):
                self._parts.looker.suspect(effect.revision, str(error))
            if isinstance(effect, e.Upload):
                self._note("delta_upload_failed", reason=str(error))
        except Exception as error:  # a mistake of ours must not end in silence
            logger.exception("%s failed", type(effect).__name__)
            reason = f"{type(error).__name__}: {error}"
            event = e.Failed(time.monotonic(), effect, reason)
        try:
            self._tell(machine, event)
        finally:
            with self._news:
                self._threads.discard(threading.current_thread())

    def _do(self, effect: e.Effect) -> e.Event:
        parts, now = self._parts, time.monotonic
        match effect:
            case e.Look():
                return e.Looked(view=parts.looker.look(), now_s=now())
            case e.Fetch():
                weights, cursors = parts.follower.fetch(effect)
                if weights is not None and effect.weights is not None:
                    self._fetched = {effect.weights.sha256: weights}
                return e.Fetched(now(), cursors)
            case e.Upload():
                return self._upload(effect)
            case e.Cut():
                return self._cut()
            case e.Persist():
                self._persist(effect)
                return e.Persisted(now())
        leader = parts.leader
        assert leader is not None
        match effect:
            case e.Inspect():
                held = self.master.candidates if self.master else ()
                found = leader.inspect(effect, [c.name for c in held])
                return e.Inspected(now(), *found)
            case e.Fold():
                return folded(leader.fold(effect), now())
            case e.Publish():
                leader.publish(effect)
                parts.published(effect)
                return e.Published(now())
        raise AssertionError(effect)

    def _upload(self, effect: e.Upload) -> e.Event:
        progress = self.progress
        sent = None if progress is None else progress.sent
        if sent is None:
            raise LaneError("its vectors are gone")  # given up in the meantime
        self._parts.follower.upload(effect.header, sent)
        self._note("delta_upload_uploaded", sequence=effect.header.seq)
        return e.Uploaded(time.monotonic())

    def _cut(self) -> e.Event:
        held = self._at_cut
        assert held is not None
        after = cut(held.progress, held.handed.weights)
        assert after.sent is not None
        payload = payload_of(after.sent)
        self.progress, self._at_cut = after, attrs.evolve(held, progress=after)
        return e.CutDone(
            time.monotonic(), payload.sha256, payload.bytes, payload.finite
        )

    def _persist(self, effect: e.Persist) -> None:
        held, self._at_cut = self._at_cut, None
        assert held is not None
        held.handed.save(*_saved(effect.record, held.progress))

    def _tick(self) -> None:
        while True:
            with self._news:
                self._news.wait(TICK_S)
                if self._closed:
                    return
            now_s = time.monotonic()
            self._tell("worker", e.Tick(now_s))
            self._tell("master", e.Tick(now_s))
            self._parts.changed(self)

    @property
    def leads(self) -> bool:
        """Whether this node leads the run, as far as it knows."""
        with self._news:
            return self.master is not None and leads(self.master)


def _saved(
    record: Record, progress: Progress | None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    return {KEY: records.to_plain(record)}, to_tensors(record, progress)
