"""A run from beginning to end: open, go on from a checkpoint, train, tell."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import torch

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config
from speedtronic.shell.checkpoint_places import Places, lane_of
from speedtronic.shell.checkpoint_writer import CheckpointWriter
from speedtronic.shell.config import checked, to_dict
from speedtronic.shell.data import Data
from speedtronic.shell.data.prepare import Progress, silent
from speedtronic.shell.device import choose_device
from speedtronic.shell.distributed.coordinator import Coordinator
from speedtronic.shell.distributed.identity import told_name
from speedtronic.shell.distributed.node import Joined, join, start_node
from speedtronic.shell.hooks import Hook, RunInfo, build_hooks
from speedtronic.shell.interrupt import Interrupt
from speedtronic.shell.loop import Loop, Tools
from speedtronic.shell.metrics import MetricLog, resume_log, start_log
from speedtronic.shell.micro_batch import kept_rows
from speedtronic.shell.opening import open_session
from speedtronic.shell.paths import metrics_file, run_folder
from speedtronic.shell.progress import ProgressBar
from speedtronic.shell.rank_follow import follow
from speedtronic.shell.rank_orders import Beginning, Conductor, end
from speedtronic.shell.rank_place import read_place
from speedtronic.shell.ranks import Ranks
from speedtronic.shell.resuming import Resumed, find_resumed, restore_generators
from speedtronic.shell.rundir import RECORD, Mode, RunDirectory
from speedtronic.shell.session import Session
from speedtronic.shell.shape_report import tell_shapes
from speedtronic.shell.stepper import Counters, Stepper
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
from speedtronic.shell.utilization import Utilization

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True, eq=False)
class _Call:
    """What `train` was asked for, in the process that decides."""

    config: Config
    device: torch.device
    ranks: Ranks | None  # of the node, if it has several
    places: Places
    chosen: Path | None  # a checkpoint that was named
    mode: Mode
    progress: bool | None
    hooks: Sequence[Callable[[], Hook]]
    preparing: Progress


@attrs.frozen(kw_only=True)
class TrainResult:
    """What a call of `train` came to; its size does not depend on the run's length."""

    steps: int  # done in the whole run, skipped ones included
    samples: int
    tokens: int
    loss: float | None  # of the last logged step, nats
    validation_loss: float | None  # of the last evaluation, nats
    bits_per_byte: float | None
    average_validation_loss: float | None  # the same, of the averaged weights
    exit_code: int  # 0, or 130 and 143 for an interrupted run
    run_directory: Path
    # None where an earlier process had finished the run, and in ranks after the first.
    summary: RunSummary | None


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

    Processes that ``torchrun`` has started share each step; all of them call this, and
    the result is the same for all but for the summary, which the first one has.

    Args:
        config: of the run.
        resume: ``auto`` goes on from the run's newest whole checkpoint if there is
            one; a path goes on from that checkpoint, or branches off if it belongs to
            another run; a lane is where the run's newest one is. None means what
            ``checkpoint.resume`` says.
        overwrite: delete the run of this name, if there is one.
        progress: show a bar on a terminal; None means what ``logging.progress`` says.
        hooks: factories of hooks beside those of ``logging.hooks``.
        preparing: told how far the preparation of the data is.

    Raises:
        ConfigError, DataError, DeviceError, ModelError, RunError: before training.
        CheckpointError, TrainingError, StorageError: the run failed; its last whole
            checkpoint is kept.
        RankError: another process of this node failed.
    """
    config = checked(config)
    source = None if overwrite else lane_of(resume or config.checkpoint.resume)
    chosen, mode = _how(config, resume, overwrite)
    place = read_place(os.environ)
    several = place.ranks > 1
    device = choose_device(config.run.device, place.local_rank if several else None)
    with ExitStack() as stack:
        ranks = stack.enter_context(Ranks(place, device)) if several else None
        if ranks is not None and place.rank:
            data, session = open_session(stack, config, device, ranks, silent)
            return _result_from(follow(ranks, session, data))
        result = _train(
            _Call(
                config=config,
                device=device,
                ranks=ranks,
                places=Places(config, source, mode),
                chosen=chosen,
                mode=mode,
                progress=progress,
                hooks=hooks,
                preparing=preparing,
            )
        )
        if ranks is not None:
            end(ranks, _plain(result))
        return result


def _train(call: _Call) -> TrainResult:
    config, mode, places = call.config, call.mode, call.places
    with ExitStack() as stack:
        # Nothing is begun or deleted before data and model are known to be usable.
        RunDirectory.check(run_folder(config), mode)
        places.reach()
        kept = kept_rows(run_folder(config), mode)
        data, session = open_session(
            stack, config, call.device, call.ranks, call.preparing, kept
        )
        config = session.config
        call = attrs.evolve(call, config=config)
        joined = None
        if config.distributed.enabled:
            joined = join(config, session, data.fingerprint)
        run = stack.enter_context(
            RunDirectory.open(run_folder(config), mode, config, places.prepare)
        )
        for note in (*run.notes, *data.notes, *session.notes):
            logger.info("%s", note)
        if run.finished_step is not None:
            places.deliver_again(stack)
            return _already_done(run, run.finished_step)
        return _run(stack, call, run, data, session, joined)


def _plain(result: TrainResult) -> dict[str, Any]:
    """What the other ranks learn of the result."""
    return attrs.asdict(attrs.evolve(result, summary=None))


def _result_from(told: Mapping[str, Any]) -> TrainResult:
    folder = Path(told["run_directory"])
    return TrainResult(**{**told, "run_directory": folder})


def _how(
    config: Config, resume: str | None, overwrite: bool
) -> tuple[Path | None, Mode]:
    """The checkpoint to start from, if one is named, and how to open the folder."""
    wanted = config.checkpoint.resume if resume is None else resume
    if overwrite:
        return None, "overwrite"
    if wanted is False or wanted == "false":
        return None, "new"
    if wanted is True or wanted in ("auto", "true") or lane_of(wanted):
        return None, "auto"
    chosen = Path(str(wanted))
    inside = [entry for entry in chosen.glob("step-*") if entry.is_dir()]
    if not chosen.is_dir() or inside or (chosen / RECORD).exists():
        raise ConfigError(
            f"checkpoint.resume: {str(chosen)!r} is no checkpoint folder; expected"
            " auto, a folder named step-N, or a lane"
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
        steps=_count(told.get("steps"), step),
        samples=_count(told.get("samples"), 0),
        tokens=_count(told.get("tokens"), 0),
        loss=_last(told.get("loss")),
        validation_loss=_last(told.get("validation_loss")),
        bits_per_byte=None,
        average_validation_loss=_last(told.get("average_validation_loss")),
        exit_code=0,
        run_directory=run.path,
        summary=None,
    )


def _last(numbers: Any) -> float | None:
    """The last value in a summary's numbers; whoever changed the file, it is told."""
    point = numbers.get("last") if isinstance(numbers, dict) else None
    value = point[1] if isinstance(point, list | tuple) and len(point) == 2 else None
    return value if isinstance(value, float) else None


def _count(value: Any, otherwise: int) -> int:
    return value if type(value) is int else otherwise


def _run(
    stack: ExitStack,
    call: _Call,
    run: RunDirectory,
    data: Data,
    session: Session,
    joined: Joined | None,
) -> TrainResult:
    config, ranks = call.config, call.ranks
    mfu = Utilization(session, 1 if ranks is None else ranks.place.ranks)
    resumed = find_resumed(run, data, session, call.chosen)
    counters, state = Counters(), session.initial
    if resumed is not None:
        counters, state = resumed.counters, resumed.state
    log = stack.enter_context(_open_log(config, run, counters.position))
    interrupt = stack.enter_context(Interrupt())
    conductor = None if ranks is None else Conductor(ranks, interrupt)
    timebox = None
    if config.run.max_minutes is not None:
        path = run.path / PROGRESS_FILE
        timebox = TimeBox(
            config.run.max_minutes, path, counters.position, counters.timed_seconds
        )
        stack.callback(timebox.close)
    last_step = None if timebox else config.run.max_steps
    show = config.logging.progress if call.progress is None else call.progress
    bar = ProgressBar(last_step, counters.position, enabled=show)
    writer = None
    if config.checkpoint.enabled:
        keep = config.checkpoint
        saved = call.places.deliver(stack, None if resumed is None else resumed.path)
        writer = stack.enter_context(
            CheckpointWriter(
                run.checkpoints,
                keep_last=keep.keep_last,
                keep_best=keep.keep_best,
                saved=saved,
            )
        )
    plain = to_dict(config)
    info = RunInfo(
        run=config.run.name,
        node=told_name(config),
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
    running = build_hooks([*config.logging.hooks, *call.hooks], info)
    # Last, because whatever is built before may draw from the global generators.
    reasons = () if resumed is None else restore_generators(resumed)
    if conductor is not None:
        position = None if resumed is None else resumed.position
        state = conductor.start(
            Beginning(state=state, counters=attrs.asdict(counters), data=position)
        )
    tools = Tools(
        data=data,
        log=log,
        hooks=running,
        bar=bar,
        writer=writer,
        timebox=timebox,
        interrupt=interrupt,
        run_id=run.run_id,
        mfu=mfu,
        reasons=reasons,
        coordinator=coordinator,
        conductor=conductor,
    )
    loop = Loop(session, tools, Stepper(session, data, state, counters, ranks))
    log.event("train_start", counters.position, device=str(session.device))
    if resumed is None:
        tell_shapes(session, log, counters.position)
    if session.streams:
        log.event("ooo_backprop", counters.position, streams=session.streams)
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
        average_validation_loss=_last(summary.average_validation_loss),
        exit_code=interrupt.exit_code or 0,
        run_directory=run.path,
        summary=summary,
    )


def _start_node(
    config: Config,
    session: Session,
    joined: Joined,
    run: RunDirectory,
    resumed: Resumed | None,
) -> Coordinator:
    saved = None if resumed is None else (resumed.values, resumed.tensors)
    return start_node(config, session, joined, run.path, saved)


def _open_log(config: Config, run: RunDirectory, position: int) -> MetricLog:
    path = metrics_file(config)
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
        node=told_name(loop.config),
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
