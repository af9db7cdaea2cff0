"""The checkpoints of a run: which one to resume from, which ones to delete.

Only folders named ``step-N`` are looked at, and only those whose manifest names this
run are ever deleted. What is damaged, of another run or left behind by going back to
an older step is not deleted but renamed (``step-00000010.damaged``), and said.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import attrs

from speedtronic.errors import CheckpointError, Damaged
from speedtronic.pure.retention import best_of, to_delete
from speedtronic.pure.tree import Tree
from speedtronic.shell import checkpoint_manifest
from speedtronic.shell.atomic import (
    explained,
    remove_folder,
    restore_replaced,
    sync_folder,
)
from speedtronic.shell.checkpoint import Snapshot, load, verify
from speedtronic.shell.checkpoint_manifest import FOLDER, Manifest, folder_name

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Found:
    """The newest whole checkpoint, and what was wrong with newer ones."""

    path: Path | None
    skipped: tuple[str, ...]  # one line each


@attrs.frozen(kw_only=True, eq=False)
class Resumed:
    """Where a run goes on."""

    path: Path
    snapshot: Snapshot
    notes: tuple[str, ...]  # one line for each checkpoint that was passed over


@attrs.frozen
class _Skip:
    path: Path
    word: str  # why, in one word, for the new name
    reason: str


def find(folder: Path, run_id: str | None = None) -> Found:
    """Look for the newest whole checkpoint without changing anything.

    Args:
        folder: holds the checkpoints of a run; it may be missing.
        run_id: the run it must belong to, if that matters.
    """
    path, _, skipped = _first_whole(folder, run_id, verify)
    return Found(path=path, skipped=tuple(skip.reason for skip in skipped))


def best(folder: Path, run_id: str) -> Path | None:
    """The checkpoint with the lowest validation loss, if any was evaluated."""
    chosen = best_of(m.kept() for m in _manifests(folder, run_id))
    return None if chosen is None else folder / folder_name(chosen.step)


def resume(
    folder: Path, like: Tree, run_id: str, chosen: Path | None = None
) -> Resumed | None:
    """Load the newest whole checkpoint, or the one that was chosen.

    Checkpoints of later steps are renamed, so that they can neither be mistaken for
    the run's own future nor be in its way.

    Args:
        folder: holds the checkpoints of the run.
        like: a state as `load` takes it.
        run_id: this run; a chosen checkpoint from elsewhere may be of another one.
        chosen: the folder of a checkpoint.

    Returns:
        None if there is no checkpoint at all.

    Raises:
        CheckpointError: the chosen one is not usable, none is usable, or the run has
            another structure than ``like``.
    """
    skipped: list[_Skip] = []
    restore_replaced(folder)
    if chosen is None:
        path, snapshot, skipped = _first_whole(
            folder, run_id, lambda p: load(p, like, run_id=run_id)
        )
        if path is None and skipped:
            reasons = "; ".join(skip.reason for skip in skipped)
            raise CheckpointError(
                f"{folder} holds no usable checkpoint, and nothing was changed:"
                f" {reasons}"
            )
    else:
        path = chosen
        inside = chosen.resolve().parent == folder.resolve()
        snapshot = load(chosen, like, run_id=run_id if inside else None)
        if not snapshot.finite:
            raise CheckpointError(f"{chosen} holds weights that are not finite")
    if path is None or snapshot is None:
        return None
    known = {skip.path for skip in skipped}
    for step, later in _steps(folder):
        if later not in known and step > snapshot.step:
            reason = f"{later} is later than the chosen step {snapshot.step}"
            skipped.append(_Skip(later, "abandoned", reason))
    notes = tuple(f"{skip.reason}; renamed to {_set_aside(skip)}" for skip in skipped)
    return Resumed(path=path, snapshot=snapshot, notes=notes)


def prune(
    folder: Path, run_id: str, step: int, *, keep_last: int | None, keep_best: bool
) -> list[str]:
    """Delete what retention does not keep, of this run and up to ``step`` only.

    Returns:
        The names of the folders that were deleted.

    Raises:
        StorageError: one cannot be deleted.
    """
    kept = [m.kept() for m in _manifests(folder, run_id) if m.step <= step]
    names = [
        folder_name(old)
        for old in to_delete(kept, keep_last=keep_last, keep_best=keep_best)
    ]
    for name in names:
        remove_folder(folder / name)
    return names


def _steps(folder: Path) -> list[tuple[int, Path]]:
    """Checkpoint folders with their steps, the newest first."""
    try:
        entries = [e for e in folder.iterdir() if FOLDER.fullmatch(e.name)]
        folders = [entry for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror}") from error
    steps = ((int(entry.name.removeprefix("step-")), entry) for entry in folders)
    return sorted(steps, reverse=True)


def _manifests(folder: Path, run_id: str) -> Iterator[Manifest]:
    for _, path in _steps(folder):
        try:
            manifest = checkpoint_manifest.read(path)
        except CheckpointError:
            continue  # not known to be ours: it is never counted and never deleted
        if manifest.run_id == run_id:
            yield manifest


def _first_whole(
    folder: Path, run_id: str | None, attempt: Callable[[Path], T]
) -> tuple[Path | None, T | None, list[_Skip]]:
    skipped = []
    for _, path in _steps(folder):
        try:
            manifest = checkpoint_manifest.read(path)
            if run_id is not None and manifest.run_id != run_id:
                reason = f"{path} belongs to run {manifest.run_id}, not to {run_id}"
                skipped.append(_Skip(path, "foreign", reason))
            elif not manifest.finite:
                reason = f"{path} holds weights that are not finite"
                skipped.append(_Skip(path, "nonfinite", reason))
            else:
                return path, attempt(path), skipped
        except Damaged as error:
            skipped.append(_Skip(path, "damaged", str(error)))
    return None, None, skipped


def _set_aside(skip: _Skip) -> str:
    stem = f"{skip.path.name}.{skip.word}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    name = next(n for n in names if not (skip.path.parent / n).exists())
    with explained(skip.path):
        skip.path.rename(skip.path.with_name(name))
        sync_folder(skip.path.parent)
    return name
