"""A run from beginning to end: open, go on from a checkpoint, train, tell."""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import CheckpointError, ConfigError, ModelError, RunError
from speedtronic.pure.config import Config
from speedtronic.pure.tree import tree_map
from speedtronic.shell import generators
from speedtronic.shell.check_loss import own_loss
from speedtronic.shell.checkpoint_folder import Resumed
from speedtronic.shell.checkpoint_folder import resume as resume_checkpoint
from speedtronic.shell.checkpoint_writer import CheckpointWriter
from speedtronic.shell.config import checked, to_dict
from speedtronic.shell.data import Data, open_data
from speedtronic.shell.data.prepare import Progress, silent
from speedtronic.shell.device import choose_device, machine
from speedtronic.shell.distributed.coordinator import Coordinator
from speedtronic.shell.distributed.identity import data_share
from speedtronic.shell.distributed.node import Joined, join, start_node
from speedtronic.shell.hooks import Hook, RunInfo, build_hooks
from speedtronic.shell.interrupt import Interrupt
from speedtronic.shell.loop import Counters, Loop, Tools
from speedtronic.shell.metrics import MetricLog, resume_log, start_log
from speedtronic.shell.paths import run_folder, token_folder
from speedtronic.shell.progress import ProgressBar
from speedtronic.shell.rundir import RECORD, Mode, RunDirectory
from speedtronic.shell.session import Session, build_session
from speedtronic.shell.summary import (
    RunSummary,
    Status,
    closing_lines,
    read_summary,
    summarize,
    to_plain,
    write_summary,
)
from speedtronic.shell.timebox import FILE as PROGRESS_FILE
from speedtronic.shell.timebox import TimeBox

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class TrainResult:
    """What a call of `train` came to; its size does not depend on the run's length."""

    steps: int  # done in the whole run, skipped ones included
    samples: int
    tokens: int
    loss: float | None  # of the last logged step, nats
    validation_loss: float | None  # of the last evaluation, nats
    bits_per_byte: float | None
    exit_code: int  # 0, or 130 and 143 for an interrupted run
    run_directory: Path
    summary: RunSummary | None  # None where an earlier process had finished the run


def train(
    config: Config,
    *,
    resume: str | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
    hooks: Sequence[Callable[[], Hook]] = (),
    preparing: Progress = silent,
) -> TrainResult:
    """Train what a config asks for.

    Args:
        config: of the run.
        resume: ``auto`` goes on from the run's newest whole checkpoint if there is
            one; a path goes on from that checkpoint, or branches off if it belongs to
            another run. None means what ``checkpoint.resume`` says.
        overwrite: delete the run of this name, if there is one.
        progress: show a bar on a terminal; None means what ``logging.progress`` says.
        hooks: factories of hooks beside those of ``logging.hooks``.
        preparing: told how far the preparation of the data is.

    Raises:
        ConfigError, DataError, DeviceError, ModelError, RunError: before training.
        CheckpointError, TrainingError, StorageError: the run failed; its last whole
            checkpoint is kept.
    """
    config = checked(config)
    chosen, mode = _how(config, resume, overwrite)
    with ExitStack() as stack:
        # Nothing is begun or deleted before data and model are known to be usable.
        RunDirectory.check(run_folder(config), mode)
        device = choose_device(config.run.device)
        stack.enter_context(machine(config.run, device))
        data = open_data(
            config,
            directory=token_folder(config),
            progress=preparing,
            **data_share(config),
        )
        stack.callback(data.close)
        batch = data.train_batch(0).micro_batches[0]
        session = build_session(config, batch)
        if told := own_loss(session.module, tree_map(lambda x: x[:1], batch)):
            raise ModelError(told)
        joined = None
        if config.distributed.enabled:
            joined = join(config, session, data.fingerprint)
        run = stack.enter_context(RunDirectory.open(run_folder(config), mode, config))
        for note in (*run.notes, *data.notes, *session.notes):
            logger.info("%s", note)
        if run.finished_step is not None:
            return _already_done(run, run.finished_step)
        return _run(stack, config, run, data, session, joined, chosen, progress, hooks)


def _how(
    config: Config, resume: str | None, overwrite: bool
) -> tuple[Path | None, Mode]:
    """The checkpoint to start from, if one is named, and how to open the folder."""
    wanted = config.checkpoint.resume if resume is None else resume
    if overwrite:
        return None, "overwrite"
    if wanted is False or wanted == "false":
        return None, "new"
    if wanted is True or wanted in ("auto", "true"):
        return None, "auto"
    chosen = Path(str(wanted))
    inside = [entry for entry in chosen.glob("step-*") if entry.is_dir()]
    if not chosen.is_dir() or inside or (chosen / RECORD).exists():
        raise ConfigError(
            f"checkpoint.resume: {str(chosen)!r} is no checkpoint folder; expected"
            " auto, or a folder named step-N"
        )
    own = run_folder(config).resolve() in chosen.resolve().parents
    return chosen, "resume" if own else "new"


def _already_done(run: RunDirectory, step: int) -> TrainResult:
    logger.info(
        "%s is finished at step %d; raise run.max_%s to go on",
        run.path,
        step,
        "steps" if run.record.config.run.max_minutes is None else "minutes",
    )
    told = read_summary(run.path)
    return TrainResult(
        steps=told.get("steps", step),
        samples=told.get("samples", 0),
        tokens=told.get("tokens", 0),
        loss=_last(told.get("loss")),
        validation_loss=_last(told.get("validation_loss")),
        bits_per_byte=None,
        exit_code=0,
        run_directory=run.path,
        summary=None,
    )


def _last(numbers: Any) -> float | None:
    point = None if numbers is None else numbers.get("last")
    return None if point is None else point[1]


def _run(
    stack: ExitStack,
    config: Config,
    run: RunDirectory,
    data: Data,
    session: Session,
    joined: Joined | None,
    chosen: Path | None,
    progress: bool | None,
    hooks: Sequence[Callable[[], Hook]],
) -> TrainResult:
    resumed = _resume(run, data, session, chosen)
    counters, state = Counters(), session.initial
    if resumed is not None:
        counters = resumed.counters
        state = resumed.found.snapshot.state
    log = stack.enter_context(_open_log(config, run, counters.position))
    interrupt = stack.enter_context(Interrupt())
    timebox = None
    if config.run.max_minutes is not None:
        path = run.path / PROGRESS_FILE
        timebox = TimeBox(
            config.run.max_minutes, path, counters.position, counters.timed_seconds
        )
        stack.callback(timebox.close)
    last_step = None if timebox else config.run.max_steps
    show = config.logging.progress if progress is None else progress
    bar = ProgressBar(last_step, counters.position, enabled=show)
    writer = None
    if config.checkpoint.enabled:
        keep = config.checkpoint
        writer = stack.enter_context(
            CheckpointWriter(
                run.checkpoints, keep_last=keep.keep_last, keep_best=keep.keep_best
            )
        )
    plain = to_dict(config)
    info = RunInfo(
        run=config.run.name,
        node=config.distributed.node_id or "node-0",
        project=config.logging.project,
        folder=run.path,
        config=plain,
        resumed_from=counters.position if resumed else None,
        history=log.history,
    )
    coordinator = None
    if joined is not None:
        coordinator = _start_node(config, session, joined, run, resumed)
        stack.enter_context(coordinator)
    running = build_hooks([*config.logging.hooks, *hooks], info)
    # Last, because whatever is built before may draw from the global generators.
    reasons = () if resumed is None else _restore_generators(resumed)
    tools = Tools(
        data=data,
        log=log,
        hooks=running,
        bar=bar,
        writer=writer,
        timebox=timebox,
        interrupt=interrupt,
        run_id=run.run_id,
        reasons=reasons,
        coordinator=coordinator,
    )
    loop = Loop(session, tools, state, counters)
    log.event("train_start", counters.position, device=str(session.device))
    status: Status = "failed"
    error: str | None = None
    try:
        with bar:
            loop.run()
        status = "interrupted" if interrupt else "completed"
        if status == "completed":
            run.finish(loop.counters.position)
    except BaseException as failure:
        error = f"{type(failure).__name__}: {failure}"
        raise
    finally:
        summary = _tell(loop, log, status, error, plain, run.path)
        running.close(to_plain(summary), error)
    return TrainResult(
        steps=summary.steps,
        samples=summary.samples,
        tokens=summary.tokens,
        loss=_last(summary.loss),
        validation_loss=_last(summary.validation_loss),
        bits_per_byte=loop.evaluation.bits_per_byte if loop.evaluation else None,
        exit_code=interrupt.exit_code or 0,
        run_directory=run.path,
        summary=summary,
    )


@attrs.frozen(kw_only=True, eq=False)
class _Resumed:
    """What a run goes on from."""

    found: Resumed
    counters: Counters
    generators: dict[str, Any]


def _resume(
    run: RunDirectory, data: Data, session: Session, chosen: Path | None
) -> _Resumed | None:
    """Find and load what to go on from, and set the data to where it was."""
    if not run.resumed and chosen is None:
        return None
    try:
        found = resume_checkpoint(run.checkpoints, session.initial, run.run_id, chosen)
    except CheckpointError as error:
        if "scale.good_steps" not in str(error):
            raise
        raise RunError(
            f"precision.mode: {session.arithmetic.name} cannot go on from this"
            " checkpoint: fp16 has a loss scale, the others have none; set it back to"
            " what the run was trained with"
        ) from error
    if found is None:
        logger.info("%s holds no checkpoint yet, the run starts anew", run.path)
        return None
    values = found.snapshot.values
    try:
        counters = Counters(**values["counters"])
        position, fingerprint = values["data"], values["fingerprint"]
        resumed = _Resumed(
            found=found, counters=counters, generators=values["generators"]
        )
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"{found.path} was not written by a training run: {error} in its values"
        ) from error
    if fingerprint != data.fingerprint:
        raise CheckpointError(
            f"{found.path}: the data has fingerprint {data.fingerprint}, the run began"
            f" with {fingerprint}; put it back, or begin another run"
        )
    data.load_state_dict(position)
    for note in found.notes:
        logger.warning("%s", note)
    logger.info("resumed from %s", found.path)
    return resumed


def _start_node(
    config: Config,
    session: Session,
    joined: Joined,
    run: RunDirectory,
    resumed: _Resumed | None,
) -> Coordinator:
    saved = None
    if resumed is not None:
        snapshot = resumed.found.snapshot
        saved = snapshot.values, snapshot.tensors
    return start_node(config, session, joined, run.path, saved)


def _restore_generators(resumed: _Resumed) -> tuple[str, ...]:
    """Put the global generators back; why the run is not exact, if it is not."""
    snapshot = resumed.found.snapshot
    restored = generators.restore(resumed.generators, snapshot.tensors)
    for note in restored.notes:
        logger.warning("%s", note)
    reasons = (*snapshot.reasons, *restored.reasons)
    for reason in reasons:
        logger.warning("not exact: %s", reason)
    return reasons


def _open_log(config: Config, run: RunDirectory, position: int) -> MetricLog:
    path = Path(config.logging.json_file or run.path / "metrics.jsonl")
    last_step = None if config.run.max_minutes is not None else config.run.max_steps
    every = config.logging.every_steps
    if run.resumed and path.exists():
        return resume_log(path, position, every=every, last_step=last_step)
    # The folder is this run's own by now; a file elsewhere may be another run's.
    own = path.parent == run.path
    return start_log(path, every=every, last_step=last_step, overwrite=own)


def _tell(
    loop: Loop,
    log: MetricLog,
    status: Status,
    error: str | None,
    config: dict[str, Any],
    folder: Path,
) -> RunSummary:
    """Write the summary of the run, whatever became of it."""
    counters, reading = loop.counters, loop.reading
    summary = summarize(
        log,
        status=status,
        steps=counters.position,
        samples=counters.samples,
        tokens=counters.tokens,
        skipped_steps=reading.skipped if reading else 0,
        wall_seconds=counters.wall_seconds,
        run=loop.config.run.name,
        node=loop.config.distributed.node_id or "node-0",
        device=str(loop.session.device),
        precision=loop.session.arithmetic.name,
        config=config,
        error=error,
    )
    log.event("train_end", counters.position, status=status)
    write_summary(folder, summary)
    for line in closing_lines(summary):
        logger.info("%s", line)
    return summary
