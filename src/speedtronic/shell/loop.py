"""The loop over steps: the one place of a run where time passes.

It decides when to log, evaluate, save and stop; everything else is done by what it is
given. A step that nobody asks about never waits for the device.

The *position* counts batches consumed, skipped steps included; it is what the user
calls a step. Cadences, data and randomness go by it. The schedule goes by the steps
that changed the parameters, so that a skipped one loses no learning rate.
"""

import logging
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import attrs
import torch
from torch import Tensor

from speedtronic.errors import TrainingError
from speedtronic.pure.config import Config
from speedtronic.pure.inner import InnerState, StepInfo
from speedtronic.pure.metrics import StepRecord
from speedtronic.pure.optim import Clock
from speedtronic.shell import generators
from speedtronic.shell.checkpoint import Snapshot, all_finite
from speedtronic.shell.checkpoint_writer import CheckpointWriter
from speedtronic.shell.data import Data
from speedtronic.shell.distributed.coordinator import Coordinator
from speedtronic.shell.evaluate import Evaluation, evaluate_held_out
from speedtronic.shell.hooks import Hooks
from speedtronic.shell.interrupt import Interrupt
from speedtronic.shell.meeting import Meeting
from speedtronic.shell.meters import Stopwatch, memory_bytes
from speedtronic.shell.metrics import MetricLog
from speedtronic.shell.progress import Eta, ProgressBar, step_line
from speedtronic.shell.rank_orders import Conductor
from speedtronic.shell.reading import Reading, read
from speedtronic.shell.session import Session, hub_config
from speedtronic.shell.stepper import Counters, Stepper
from speedtronic.shell.timebox import TimeBox

logger = logging.getLogger(__name__)
_REMEDIES = "lower optimizer.lr, set optimizer.grad_clip, or look at the data"


@attrs.frozen(kw_only=True, eq=False)
class Tools:
    """What the loop is given to work with; the caller closes them."""

    data: Data
    log: MetricLog
    hooks: Hooks
    bar: ProgressBar
    writer: CheckpointWriter | None
    timebox: TimeBox | None
    interrupt: Interrupt
    run_id: str
    mfu: Callable[[float | None], float | None]  # of so many tokens per second
    reasons: tuple[str, ...]  # why this run is not exact any more
    coordinator: Coordinator | None = None  # of a run with other nodes
    conductor: Conductor | None = None  # of a node with other ranks


class Loop:
    """Trains a session until its end, an interrupt or a failure.

    Args:
        session: what to train.
        tools: to work with.
        stepper: takes the steps.
    """

    def __init__(self, session: Session, tools: Tools, stepper: Stepper) -> None:
        self.session, self.tools, self.stepper = session, tools, stepper
        self.config: Config = session.config
        self.evaluation: Evaluation | None = None  # of the newest evaluated step
        self.reading: Reading | None = None  # of the newest step that was looked at
        self._evaluated_at = self._saved_at = -1
        self._saved_time = time.monotonic()
        self._watch = Stopwatch(
            wall_seconds=self.counters.wall_seconds, tokens=self.counters.tokens
        )
        self._eta = Eta(self.last_step)
        self._save_waits = False
        node = tools.coordinator
        self._meeting = None if node is None else Meeting(self, node)

    @property
    def state(self) -> InnerState:
        """As the last step left it."""
        return self.stepper.state

    @property
    def counters(self) -> Counters:
        """How far the run is."""
        return self.stepper.counters

    @property
    def last_step(self) -> int | None:
        """The position at which the run ends; None if time ends it."""
        run = self.config.run
        return run.max_steps if self.tools.timebox is None else None

    @property
    def over(self) -> bool:
        """Whether nothing is left to train."""
        if self.tools.timebox is not None:
            return self.tools.timebox.over
        return self.counters.position >= self.config.run.max_steps

    def run(self) -> None:
        """Train on; returns when the run is over or interrupted.

        Raises:
            TrainingError: after too many skipped steps in a row, or if the run ends
                without usable weights.
        """
        with closing(self.stepper):
            first = True
            self._meet(0, 0)
            while not self.over and not self.tools.interrupt:
                self._advance(first)
                first = False
            if self._meeting is not None:
                self._leave(self._meeting)
        if self._meeting is not None or self._saved_at != self.counters.position:
            self._save(wait=True)
        elif self.tools.writer is not None:
            self.tools.writer.wait()  # nothing may be called done before it is
        if self.over:
            self._check_end()

    def _meet(self, steps: int, tokens: int) -> None:
        if self._meeting is None:
            return
        try:
            self._meeting.meet(steps, tokens)
        except TrainingError:
            if self._meeting.may_save:
                self._save(wait=True)  # what was learned must not be lost
            raise

    def _leave(self, meeting: Meeting) -> None:
        """Deliver what was trained; it is safe on the disk before anything waits."""
        position = self.counters.position
        if meeting.may_save and self._saved_at != position:
            self._save(wait=True)
        within_s = self.config.distributed.delta_upload_shutdown_timeout
        logger.info(
            "step %d is done; delivering it takes %.0f s at most", position, within_s
        )
        meeting.leave()

    def _check_end(self) -> None:
        """Do not call a run completed whose weights are of no use."""
        position = self.counters.position
        if position and not int(self.state.step):
            raise TrainingError(
                f"step {position}: none of {position} steps was usable, the weights are"
                f" the first ones; {_REMEDIES}"
            )
        if not all_finite(self.state):
            raise TrainingError(
                f"step {position}: the weights are not finite any more; {_REMEDIES},"
                " and go on from a checkpoint before"
            )

    def _advance(self, first: bool) -> None:
        tools, stepper, tokens = self.tools, self.stepper, self.counters.tokens
        share = None
        if tools.timebox is not None:
            share = tools.timebox.read(self.session.device)
        if tools.conductor is not None:
            tools.conductor.step(tools.timebox.share if tools.timebox else None)
        with self._watch.measure("data"):
            batch = stepper.read()
        compiling = first and stepper.compiled
        with self._watch.measure("compile" if compiling else "compute"):
            info = stepper.step(batch, share)
        if tools.timebox is not None:
            self._count(timed_seconds=tools.timebox.spent_s)
        counters = self.counters
        if compiling:
            tools.log.event("compile", counters.position, kept=stepper.compiled)
        self._look(info, share)
        tools.bar.advance(counters.position)
        with self._watch.measure("round"):
            self._meet(1, counters.tokens - tokens)
        if self._is_due(self.config.checkpoint.every_steps) or self._minutes_passed():
            self._save_waits = True
        if self._save_waits and (self._meeting is None or self._meeting.may_save):
            self._save(wait=False)

    def _is_due(self, every: int | None) -> bool:
        return every is not None and self.counters.position % every == 0

    def _minutes_passed(self) -> bool:
        minutes = self.config.checkpoint.every_minutes
        passed = time.monotonic() - self._saved_time
        return minutes is not None and passed >= 60 * minutes

    def _look(self, info: StepInfo, share: Tensor | None) -> None:
        """Evaluate, log and check, as far as this step is due for it."""
        position = self.counters.position
        evaluated = None
        if self._is_due(self.config.evaluation.every_steps) or self.over:
            evaluated = self._evaluate()
        limit = self.config.precision.max_skipped_steps
        logged = self.tools.log.due(position) or self.over or evaluated is not None
        if not logged and position % limit:
            return
        reading = self.reading = read(self.state, info)
        if logged:
            self._record(reading, share, evaluated)
        if reading.skipped_in_row >= limit:
            # They changed nothing: what was learned before them must not be lost.
            self._save(wait=True)
            raise TrainingError(
                f"step {position}: {reading.skipped_in_row} steps in a row were"
                f" skipped, loss {reading.loss}, gradient norm"
                f" {reading.gradient_norm}; the weights before them are kept;"
                f" {_REMEDIES}"
            )

    def _evaluate(self) -> Evaluation | None:
        tools = self.tools
        if not tools.data.has_validation:
            return None
        with self._watch.measure("evaluation"):
            found = evaluate_held_out(
                self.session, tools.data, self.state, self._is_asked_to_stop
            )
        if found is not None:
            self.evaluation, self._evaluated_at = found, self.counters.position
        return found

    def _is_asked_to_stop(self) -> bool:
        if self.tools.conductor is not None:
            self.tools.conductor.wait()
        return bool(self.tools.interrupt)

    def _count(self, **changes: Any) -> None:
        self.stepper.counters = attrs.evolve(self.counters, **changes)

    def _record(
        self, reading: Reading, share: Tensor | None, evaluated: Evaluation | None
    ) -> None:
        tools, counters = self.tools, self.counters
        lap = self._watch.lap(counters.tokens)
        self._count(wall_seconds=lap.wall_seconds)
        before = reading.step - reading.applied
        clock = Clock(
            step=torch.tensor(before), progress=None if share is None else share.cpu()
        )
        record = StepRecord(
            step=counters.position,
            attempt=tools.log.attempt,
            time=time.time(),
            learning_rate=float(self.session.schedule(clock)),
            loss=reading.loss,
            gradient_norm=reading.gradient_norm,
            samples=counters.samples,
            tokens=counters.tokens,
            memory_bytes=memory_bytes(self.session.device),
            skipped_steps=reading.skipped,
            mfu=self.tools.mfu(lap.tokens_per_second),
            loss_scale=reading.scale,
            metrics=reading.metrics,
            **({} if evaluated is None else evaluated.recorded),
            **attrs.asdict(lap),
        )
        tools.log.write(record)
        tools.hooks.record(record)
        logger.info("%s", step_line(record, self.last_step, self._eta(record)))

    def _save(self, *, wait: bool) -> None:
        tools = self.tools
        self._saved_at, self._saved_time = self.counters.position, time.monotonic()
        self._save_waits = False
        if tools.writer is None:
            return
        with self._watch.measure("checkpoint"):
            if tools.timebox is not None:
                tools.timebox.sync()
            tools.log.sync()
            snapshot = self._with_round(self.snapshot())
            if wait:
                replace = self._meeting is not None  # a newer round, at the same step
                tools.writer.save_now(snapshot, replace=replace)
            else:
                tools.writer.save(snapshot)
        tools.log.event("checkpoint", self.counters.position)

    def _with_round(self, snapshot: Snapshot) -> Snapshot:
        if self._meeting is None:
            return snapshot
        values, tensors = self._meeting.saved()
        return attrs.evolve(
            snapshot,
            values={**snapshot.values, **values},
            tensors={**snapshot.tensors, **tensors},
        )

    def snapshot(self) -> Snapshot:
        """What a checkpoint of this moment holds; it is not copied."""
        data, position = self.tools.data, self.counters.position
        captured = generators.capture()
        inexact = () if data.exact else (data.inexact_because or "the data",)
        fresh = self._evaluated_at == position and self.evaluation is not None
        return Snapshot(
            run_id=self.tools.run_id,
            step=position,
            state=self.state,
            values={
                "counters": attrs.asdict(self.counters),
                "data": data.state_dict(self.counters.cursor),
                "fingerprint": data.fingerprint,
                "generators": captured.values,
            },
            tensors=captured.tensors,
            hub_config=hub_config(self.session),
            transient=self.session.transient,
            validation_loss=self.evaluation.best_loss
            if fresh and self.evaluation
            else None,
            reasons=tuple(
                dict.fromkeys(
                    (
                        *self.tools.reasons,
                        *inexact,
                        *captured.reasons,
                        *self.session.reasons,
                    )
                )
            ),
        )
