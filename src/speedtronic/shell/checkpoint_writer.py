"""Saving behind the training: the step waits for a copy, the disk for nobody.

A snapshot is copied at once, because the next step may write over the buffers it was
given. Writing, hashing, syncing and deleting old checkpoints happen in a thread. There
is at most one write in flight: a request that comes earlier waits for it, so that
memory stays bounded to one copy and every checkpoint asked for exists. What goes wrong
in the thread is raised by the next call, at the latest by `close`.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import attrs

from speedtronic.shell.atomic import make_writable, sweep
from speedtronic.shell.checkpoint import Snapshot, is_saved, owned, save
from speedtronic.shell.checkpoint_folder import prune


class CheckpointWriter:
    """Writes the checkpoints of one run; use it as a context manager.

    Args:
        folder: made if it is missing; what dead processes left half written in it is
            removed.
        keep_last: newest checkpoints to keep, or None for all.
        keep_best: also keep the one with the lowest validation loss.
        saved: told of each checkpoint once it is whole, before others are deleted.

    Raises:
        StorageError: the folder cannot be made, or files cannot be written there.
    """

    def __init__(
        self,
        folder: Path,
        *,
        keep_last: int | None = None,
        keep_best: bool = True,
        saved: Callable[[Path], None] = lambda path: None,
    ) -> None:
        make_writable(folder)
        sweep(folder)
        self._folder = folder
        self._keep_last = keep_last
        self._keep_best = keep_best
        self._saved = saved
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def save(self, snapshot: Snapshot) -> None:
        """Copy ``snapshot`` and write it in the background.

        A step that this run has saved already is not saved again.

        Raises:
            CheckpointError: the previous write failed.
            StorageError: an old checkpoint could not be deleted after it.
        """
        self.wait()
        if not is_saved(self._folder, snapshot):
            state, tensors = owned((snapshot.state, dict(snapshot.tensors)))
            copy = attrs.evolve(snapshot, state=state, tensors=tensors)
            self._pending = self._pool.submit(self._write, copy)

    def save_now(self, snapshot: Snapshot, *, replace: bool = False) -> None:
        """Write ``snapshot`` and return when it is on the disk; nothing is copied.

        Args:
            snapshot: what to write.
            replace: whether a step that this run has saved already is saved again.

        Raises:
            CheckpointError: this or the previous write failed.
            StorageError: an old checkpoint could not be deleted after it.
        """
        self.wait()
        if replace or not is_saved(self._folder, snapshot):
            self._write(snapshot, replace)

    def wait(self) -> None:
        """Wait for the write in flight, if there is one.

        Raises:
            CheckpointError: it failed.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait for the write in flight and end the thread.

        Raises:
            CheckpointError: the write failed.
        """
        try:
            self.wait()
        finally:
            self._pool.shutdown()

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, snapshot: Snapshot, replace: bool = False) -> None:
        self._saved(save(self._folder, snapshot, replace=replace))
        prune(
            self._folder,
            snapshot.run_id,
            snapshot.step,
            keep_last=self._keep_last,
            keep_best=self._keep_best,
        )
