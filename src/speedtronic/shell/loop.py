"""The loop over steps: the one place of a run where time passes.

It decides when to log, evaluate, save and stop; everything else is done by what it is
given. A step that nobody asks about never waits for the device.

The *position* counts batches consumed, skipped steps included; it is what the user
calls a step. Cadences, data and randomness go by it. The schedule goes by the steps
that changed the parameters, so that a skipped one loses no learning rate.
"""

import logging
import time
from contextlib import closing

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
from speedtronic.shell.data import Data, Prefetcher
from speedtronic.shell.data.base import StepBatch
from speedtronic.shell.device import seeded
from speedtronic.shell.distributed.coordinator import Coordinator
from speedtronic.shell.evaluate import Evaluation, evaluate_held_out
from speedtronic.shell.hooks import Hooks
from speedtronic.shell.interrupt import Interrupt
from speedtronic.shell.meeting import Meeting
from speedtronic.shell.meters import Stopwatch, memory_bytes
from speedtronic.shell.metrics import MetricLog
from speedtronic.shell.progress import Eta, ProgressBar, step_line
from speedtronic.shell.reading import Reading, read
from speedtronic.shell.session import Session, hub_config, on_device
from speedtronic.shell.timebox import TimeBox

logger = logging.getLogger(__name__)
_REMEDIES = "lower optimizer.lr, set optimizer.grad_clip, or look at the data"


@attrs.frozen(kw_only=True)
class Counters:
    """How far a run is; plain integers, known without asking the device."""

    position: int = 0  # steps done, skipped ones included
    samples: int = 0
    tokens: int = 0
    data_shift: int = 0  # how far the node's data is ahead of the position
    wall_seconds: float = 0.0
    timed_seconds: float = 0.0  # of a run bounded in minutes, at its last step

    @property
    def cursor(self) -> int:
        """The step of the data that is read next."""
        return self.position + self.data_shift


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
    reasons: tuple[str, ...]  # why this run is not exact any more
    coordinator: Coordinator | None = None  # of a run with other nodes


class Loop:
    """Trains a session until its end, an interrupt or a failure."""

    def __init__(
        self, session: Session, tools: Tools, state: InnerState, counters: Counters
    ) -> None:
        self.session, self.tools = session, tools
        self.state, self.counters = state, counters
        self.config: Config = session.config
        self.evaluation: Evaluation | None = None  # of the newest evaluated step
        self.reading: Reading | None = None  # of the newest step that was looked at
        self._evaluated_at = self._saved_at = -1
        self._saved_time = time.monotonic()
        self._runner = session.runner(logger.warning)
        self._watch = Stopwatch(
            wall_seconds=counters.wall_seconds, tokens=counters.tokens
        )
        self._eta = Eta(self.last_step)
        self._prefetcher: Prefetcher | None = None
        self._save_waits = False
        node = tools.coordinator
        self._meeting = None if node is None else Meeting(self, node)

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
        with closing(self):
            first = True
            self._meet(0, 0)
            while not self.over and not self.tools.interrupt:
                self._advance(first)
                first = False
            if self._meeting is not None:
                self._meeting.leave()
        if self._meeting is not None or self._saved_at != self.counters.position:
            self._save(wait=True)
        elif self.tools.writer is not None:
            self.tools.writer.wait()  # nothing may be called done before it is
        if self.over:
            self._check_end()

    def close(self) -> None:
        """Stop reading ahead."""
        if self._prefetcher is not None:
            self._prefetcher.close()
            self._prefetcher = None

    def read_on_from(self, cursor: int) -> None:
        """Take the next batch from another place in the data."""
        shift = cursor - self.counters.position
        if shift != self.counters.data_shift:
            self.counters = attrs.evolve(self.counters, data_shift=shift)
            self.close()

    def _next_batch(self) -> StepBatch:
        if self._prefetcher is None:
            data = self.config.data
            pin = data.pin_memory
            self._prefetcher = Prefetcher(
                self.tools.data,
                self.counters.cursor,
                2 if data.prefetch_factor is None else data.prefetch_factor,
                pin=self.session.device.type == "cuda" if pin is None else pin,
            )
        return self._prefetcher.next()

    def _meet(self, steps: int, tokens: int) -> None:
        if self._meeting is None:
            return
        try:
            self._meeting.meet(steps, tokens)
        except TrainingError:
            if self._meeting.may_save:
                self._save(wait=True)  # what was learned must not be lost
            raise

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
        tools, counters = self.tools, self.counters
        with self._watch.measure("data"):
            batch = self._next_batch()
            micro_batches = on_device(batch.micro_batches, self.session.device)
        share = None
        if tools.timebox is not None:
            share = tools.timebox.read(self.session.device)
        compiling = first and self._runner.compiled
        seed = _seed(self.config.run.seed, counters.position)
        with self._watch.measure("compile" if compiling else "compute"):
            with seeded(seed, self.session.device):
                self.state, info = self._runner(self.state, micro_batches, share)
        self.counters = counters = attrs.evolve(
            counters,
            position=counters.position + 1,
            samples=counters.samples + batch.samples,
            tokens=counters.tokens + batch.tokens,
            timed_seconds=tools.timebox.spent_s if tools.timebox else 0.0,
        )
        if compiling:
            tools.log.event("compile", counters.position, kept=self._runner.compiled)
        self._look(info, share)
        tools.bar.advance(counters.position)
        with self._watch.measure("round"):
            self._meet(1, batch.tokens)
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
                self.session, tools.data, self.state, lambda: bool(tools.interrupt)
            )
        if found is not None:
            self.evaluation, self._evaluated_at = found, self.counters.position
        return found

    def _record(
        self, reading: Reading, share: Tensor | None, evaluated: Evaluation | None
    ) -> None:
        tools, counters = self.tools, self.counters
        lap = self._watch.lap(counters.tokens)
        self.counters = attrs.evolve(counters, wall_seconds=lap.wall_seconds)
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
            loss_scale=reading.scale,
            validation_loss=None if evaluated is None else evaluated.loss,
            bits_per_byte=None if evaluated is None else evaluated.bits_per_byte,
            metrics=reading.metrics,
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
            validation_loss=self.evaluation.loss if fresh and self.evaluation else None,
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


def _seed(seed: int, position: int) -> int:
    """For generators that a model draws from by itself."""
    return (seed * 0x9E3779B1 + position) % 2**63
