"""``data.micro_batch_size: auto``: the most rows that fit, before the first step.

On a GPU sizes are tried from the largest down until one does not run out of memory. A
processor must not get that far, because the system then ends the process: there sizes
are tried from the smallest up, and the memory that one took says whether the next one
fits. What is tried is a whole step, without compilation, on a model of its own that is
thrown away: the run that follows has the bits of one with the found number in its
config.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor

from speedtronic.errors import ConfigError, ModelError
from speedtronic.pure.config import Config
from speedtronic.pure.gradient import gradient
from speedtronic.pure.inner import StepRule, inner_step
from speedtronic.pure.micro_batch import first_size, next_size, sizes
from speedtronic.pure.tree import leaves, tree_map
from speedtronic.pure.types import Batch
from speedtronic.shell import generators, memory
from speedtronic.shell.data import Data
from speedtronic.shell.meters import memory_bytes
from speedtronic.shell.ranks import Ranks, Tag
from speedtronic.shell.reading import read
from speedtronic.shell.rundir import Mode, recorded_config
from speedtronic.shell.session import Session, build_session, on_device

Open = Callable[..., Data]  # called with a config
Run = Callable[[int], None]  # a step with micro-batches of so many rows
_SHARE = 0.8  # of the available memory


def settle(
    config: Config,
    device: torch.device,
    ranks: Ranks | None,
    open_own: Open,
    kept: int | None,
) -> tuple[Config, tuple[str, ...]]:
    """The config with a number for its micro-batch, and what to tell about it.

    Args:
        config: of the run; one that names a number comes back as it is.
        device: of this process.
        ranks: the processes that share each step; the least that one of them can do
            counts.
        open_own: opens the data of this process.
        kept: the number that the run began with, on rank 0.

    Raises:
        ConfigError: ranks cannot share a step of ``data.target_batch_size`` rows.
        DataError, ModelError: as without ``auto``.
    """
    if ranks is not None:  # or they would wait for different messages
        ranks.agree("data.micro_batch_size", str(config.data.micro_batch_size))
    if config.data.micro_batch_size != "auto":
        return config, ()
    share = 1 if ranks is None else ranks.place.ranks
    rows, rest = divmod(config.data.target_batch_size, share)
    if rest:
        raise ConfigError(
            f"data.target_batch_size: expected a multiple of {share} ranks, found"
            f" {config.data.target_batch_size}"
        )
    if ranks is not None:
        kept = ranks.tell({"rows": kept})["rows"]
    if kept is not None and rows % kept == 0:
        return with_rows(config, kept), (_told(kept, "as the run began"),)
    found = _find(config, device, rows, share, open_own)
    if ranks is not None:
        found = int(min(row[0] for row in ranks.gather(Tag.ROWS, found)))
    return with_rows(config, found), (_told(found, f"of {rows} rows in a step"),)


def kept_rows(folder: Path, mode: Mode) -> int | None:
    """Rows of the micro-batch that the run in a folder goes on with, if it does."""
    before = recorded_config(folder) if mode in ("resume", "auto") else None
    rows = None if before is None else before.data.micro_batch_size
    return rows if isinstance(rows, int) else None


def with_rows(config: Config, rows: int) -> Config:
    """The config with so many rows in a micro-batch."""
    return attrs.evolve(config, data=attrs.evolve(config.data, micro_batch_size=rows))


def _told(rows: int, why: str) -> str:
    return f"data.micro_batch_size: auto is {rows}, {why}"


def _find(
    config: Config, device: torch.device, rows: int, share: int, open_own: Open
) -> int:
    first = first_size(rows)
    with _nothing_left(device):
        try:
            return _try_from(first, config, device, rows, share, open_own)
        except ModelError as error:
            if first == 1 or not out_of_memory(error):
                raise
    with _nothing_left(device):
        return _try_from(1, config, device, rows, share, open_own)


def _try_from(
    first: int,
    config: Config,
    device: torch.device,
    rows: int,
    share: int,
    open_own: Open,
) -> int:
    """The most rows that fit, if so many of them do."""
    config = with_rows(config, first)
    data = open_own(config)
    try:
        # Rows may be padded to different lengths; memory goes by the longest.
        example = max(data.train_batch(0).micro_batches, key=_elements)
    finally:
        data.close()
    session = build_session(config, example, device)
    run = partial(_step, session, example, rows)
    allowed = tuple(size for size in sizes(rows) if size >= first)
    if device.type == "cpu":
        return most_in_memory(allowed, run, session, share)
    return most_by_trial(allowed, run)


def most_by_trial(allowed: tuple[int, ...], run: Run) -> int:
    """The largest size that does not run out of memory; the least is not tried.

    Args:
        allowed: sizes, ascending.
        run: raises whatever the device does.
    """
    for size in reversed(allowed[1:]):
        try:
            run(size)
            return size
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
        _free()  # after the traceback, which holds on to tensors
    return allowed[0]


def most_in_memory(
    allowed: tuple[int, ...],
    run: Run,
    session: Session,
    share: int = 1,
    *,
    room: Callable[[], int] = memory.available_bytes,
    peak: Callable[[], int] = memory.peak_bytes,
) -> int:
    """The largest size whose step takes no more than is there.

    Args:
        allowed: sizes, ascending; the least is taken for granted.
        run: takes a step.
        session: whose state is not all in memory yet: zeros are, once written to.
        share: processes that take steps on this machine.
        room: bytes that are available.
        peak: bytes of the largest resident set since `memory.forget_peak`.
    """
    held = sum(x.nbytes for x in leaves(session.initial) if isinstance(x, Tensor))
    limit = _SHARE * room() / share - held
    before = memory_bytes(torch.device("cpu"))
    found, more = allowed[0], True
    while more:
        memory.forget_peak()
        run(found)
        larger = next_size(allowed, found, max(0, peak() - before), limit)
        more, found = larger is not None, larger or found
    return found


def out_of_memory(error: BaseException) -> bool:
    """Whether an error, or what it came from, is for lack of memory.

    >>> out_of_memory(RuntimeError("MPS backend out of memory (...)"))
    True
    """
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause).lower()
        if isinstance(cause, torch.OutOfMemoryError) or (
            isinstance(cause, RuntimeError)
            and ("out of memory" in text or "can't allocate memory" in text)
        ):
            return True
        cause = cause.__cause__
    return False


def _step(session: Session, example: Batch, rows: int, size: int) -> None:
    """One step from the first state, which is left as it is."""
    batch = on_device(_repeated(example, size), session.device)
    rule = StepRule(max_norm=session.config.optimizer.grad_clip)
    # Of several micro-batches two are enough: sums of gradients wait for the next.
    read(
        *inner_step(
            gradient(session.train_loss),
            session.optimizer,
            session.initial,
            [batch] if size == rows else [batch, batch],
            rule=rule,
            progress=_no_time(session),
        )
    )


def _no_time(session: Session) -> Tensor | None:
    if session.config.run.max_minutes is None:
        return None
    return torch.zeros((), device=session.device)


def _repeated(example: Batch, rows: int) -> Batch:
    """The first row of a batch, so many times."""

    def repeat(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.ndim:
            return x
        return x[:1].repeat_interleave(rows, dim=0)

    return tree_map(repeat, example)


def _elements(batch: Batch) -> int:
    return sum(x.numel() for x in leaves(batch) if isinstance(x, Tensor))


@contextmanager
def _nothing_left(device: torch.device) -> Iterator[None]:
    """Draws from global generators are undone, and memory is given back."""
    captured = generators.capture()
    try:
        yield
    finally:
        generators.restore(captured.values, captured.tensors)
        _free()


def _free() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
