"""Steps read ahead in a background thread, in the same order."""

import queue
import threading
from collections.abc import Iterator

from speedtronic.pure.tree import tree_map
from speedtronic.shell.data.base import Data, StepBatch


class Prefetcher:
    """The steps of ``data`` from ``start_step`` on, ``depth`` of them read ahead.

    Batches are a function of the step, so what was read ahead and not used is not
    lost. Data that must not be read by another thread (`Data.threaded`) is read when
    `next` asks for it. An error is raised by the `next` that asks for its step.

    Args:
        data: what to read.
        start_step: the first step.
        depth: steps to read ahead, at least 1.
        pin: copy batches to page-locked memory, for faster transfers to CUDA.
    """

    def __init__(
        self, data: Data, start_step: int, depth: int, pin: bool = False
    ) -> None:
        self._steps: Iterator[StepBatch] = data.steps(start_step)
        self._pin = pin
        self._ready: queue.Queue[StepBatch | BaseException] = queue.Queue(depth)
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if data.threaded:
            self._thread = threading.Thread(
                target=self._run, name="prefetch", daemon=True
            )
            self._thread.start()

    def next(self) -> StepBatch:
        """The next step's micro-batches; after an error, the error again."""
        if self._error is None:
            found = self._attempt() if self._thread is None else self._ready.get()
            if isinstance(found, StepBatch):
                return found
            self._error = found
        raise self._error

    def close(self) -> None:
        """Stop the thread and wait for it; workers of the data end too."""
        self._stop.set()
        while self._thread is not None and self._thread.is_alive():
            try:
                self._ready.get(timeout=0.01)
            except queue.Empty:
                continue
        close = getattr(self._steps, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> "Prefetcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            found = self._attempt()
            self._ready.put(found)
            if not isinstance(found, StepBatch):
                return

    def _attempt(self) -> StepBatch | BaseException:
        try:
            return self._read()
        except BaseException as error:
            return error

    def _read(self) -> StepBatch:
        found = next(self._steps)
        if not self._pin:
            return found
        pinned = tree_map(lambda x: x.pin_memory(), found.micro_batches)
        return StepBatch(pinned, found.samples, found.tokens)
