"""Steps read ahead in a background thread, in the same order."""

import queue
import threading
from typing import Any

from speedtronic.shell.data.stream import StepBatch


class Prefetcher:
    """The steps of ``data`` from ``start_step`` on, ``depth`` of them ahead.

    An error that a step raises is raised by the `next` that asks for that step.

    >>> class Counting:
    ...     def train_batch(self, step):
    ...         return step
    >>> with Prefetcher(Counting(), start_step=3, depth=2) as ahead:
    ...     ahead.next(), ahead.next()
    (3, 4)
    """

    def __init__(self, data: Any, start_step: int, depth: int) -> None:
        self._data = data
        self._ready: queue.Queue[Any] = queue.Queue(max(1, depth))
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(start_step,), name="prefetch", daemon=True
        )
        self._thread.start()

    def next(self) -> StepBatch:
        """The next step's micro-batches."""
        found = self._ready.get()
        if isinstance(found, BaseException):
            self._ready.put(found)
            raise found
        return found  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._ready.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)

    def __enter__(self) -> "Prefetcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, step: int) -> None:
        while not self._stop.is_set():
            try:
                found: Any = self._data.train_batch(step)
            except BaseException as error:
                found = error
            self._ready.put(found)
            if isinstance(found, BaseException):
                return
            step += 1
