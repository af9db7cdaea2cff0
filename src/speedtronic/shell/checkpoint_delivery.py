"""Delivering checkpoints to a lane behind the training, which never waits for it.

A checkpoint that is offered is linked to a place of its own, where neither retention
nor a newer one of the same step reaches it. One upload is in flight at most, and what
waits behind it is replaced by what is newer. A lane that fails is tried again, more and
more slowly, and told about once; at the end the last checkpoint has a bounded time.
"""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from speedtronic.errors import SpeedtronicError, Unavailable
from speedtronic.pure.round.backoff import delay_s
from speedtronic.shell import checkpoint_manifest
from speedtronic.shell.atomic import explained
from speedtronic.shell.checkpoint_lane import RECORD, LaneCheckpoints
from speedtronic.shell.modes import make_file, make_folder

logger = logging.getLogger(__name__)
FOLDER = "checkpoint-lane"  # in the run folder: checkpoints on their way
FIRST_S, LONGEST_S = 5.0, 300.0  # between attempts
LAST_S = 600.0  # for the last checkpoint, while the lane takes it
LAST_FAILING_S = 60.0  # and while it does not


class Delivery:
    """Brings the newest checkpoint to a lane; use it as a context manager.

    Args:
        target: where to.
        run_folder: of the run, owned by this process.
        stop: is set to end every wait of the lane.
        delay: seconds before another attempt, from how many failed.
        last_s: that the end waits for the last one, while the lane takes it and while
            it fails.

    Raises:
        StorageError: the place for what is on its way cannot be made.
    """

    def __init__(
        self,
        target: LaneCheckpoints,
        run_folder: Path,
        stop: threading.Event,
        *,
        delay: Callable[[int], float] | None = None,
        last_s: tuple[float, float] = (LAST_S, LAST_FAILING_S),
    ) -> None:
        self._target, self._record = target, run_folder / RECORD
        self._folder, self._stop = run_folder / FOLDER, stop
        who = str(run_folder.absolute())
        self._delay = delay or (lambda n: delay_s(FIRST_S, LONGEST_S, n, who))
        self._last_s = last_s
        with explained(self._folder):
            shutil.rmtree(self._folder, ignore_errors=True)
            make_folder(self._folder)
        self._news = threading.Condition()
        self._waiting: Path | None = None
        self._sending: Path | None = None
        self._failures = self._count = 0
        self._closing = False
        self._thread = threading.Thread(
            target=self._work, name="checkpoint-lane", daemon=True
        )

    def __enter__(self) -> "Delivery":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finish()
        self._stop.set()
        with self._news:
            self._news.notify_all()
        self._thread.join(timeout=1.0)  # what hangs is left behind
        shutil.rmtree(self._folder, ignore_errors=True)

    def offer(self, checkpoint: Path) -> None:
        """Deliver a checkpoint that is whole on the disk, as soon as that can be.

        Raises:
            CheckpointError, StorageError: it cannot be read.
        """
        if not checkpoint_manifest.read(checkpoint).finite:
            return  # nothing could go on from it
        with self._news:
            self._count += 1
            link = self._folder / str(self._count) / checkpoint.name
        with explained(checkpoint):
            shutil.copytree(checkpoint, link, copy_function=_link)
        with self._news:
            replaced, self._waiting = self._waiting, link
            self._news.notify_all()
        _drop(replaced)

    @property
    def idle(self) -> bool:
        """Whether everything that was offered is on the lane."""
        with self._news:
            return self._waiting is None and self._sending is None

    def _finish(self) -> None:
        """Wait for the last one, but not for ever."""
        began_s = time.monotonic()
        with self._news:
            self._closing = True
            self._news.notify_all()
            if not self.idle:
                logger.info("delivering the last checkpoint to %s", self._target.where)
            while not self.idle:
                allowed_s = self._last_s[1 if self._failures else 0]
                left_s = began_s + allowed_s - time.monotonic()
                if left_s <= 0:
                    break
                self._news.wait(min(left_s, 1.0))
            if not self.idle:
                logger.error(
                    "the last checkpoint did not reach %s in %.0f s; it is in %s, and"
                    " --resume delivers it",
                    self._target.where,
                    allowed_s,
                    self._record.parent,
                )
            self._waiting = None

    def _work(self) -> None:
        while (link := self._next()) is not None:
            try:
                wait_s = self._attempt(link)
            except Exception as error:  # a mistake of ours must not end in silence
                logger.exception("a checkpoint was not delivered")
                wait_s = self._failed(f"{type(error).__name__}: {error}", None)
            with self._news:
                self._sending = None
                if wait_s is not None and self._waiting is None:
                    self._waiting, link = link, None
                self._news.notify_all()
            _drop(link)
            if wait_s is not None:
                self._pause(wait_s)
                if self._stop.is_set():
                    return

    def _pause(self, seconds: float) -> None:
        """Wait before another attempt; the end of the run cannot wait so long."""
        with self._news:
            urgent = self._closing
            self._news.wait_for(
                lambda: self._stop.is_set() or (self._closing and not urgent),
                min(seconds, FIRST_S) if urgent else seconds,
            )

    def _next(self) -> Path | None:
        """What to deliver; None at the end."""
        with self._news:
            while self._waiting is None:
                if self._closing:
                    return None
                self._news.wait()
            self._sending, self._waiting = self._waiting, None
            return self._sending

    def _attempt(self, link: Path) -> float | None:
        """Deliver one; seconds to wait before the next attempt if it failed."""
        try:
            sent = self._target.store(self._record, link)
        except Unavailable as error:
            return self._failed(str(error), error.retry_after_s)
        except (SpeedtronicError, OSError) as error:
            return self._failed(str(error), None)
        failures, self._failures = self._failures, 0
        if failures:
            told = f"{self._target.where} takes checkpoints again, after %d failures"
            logger.info(told, failures)
        if sent:
            logger.debug("%s is on %s", link.name, self._target.where)
        return None

    def _failed(self, reason: str, retry_after_s: float | None) -> float:
        """Count a failure, and tell the first of an outage."""
        if retry_after_s is not None:  # a budget that is used up is no outage
            return retry_after_s
        self._failures += 1
        if self._failures == 1:
            logger.warning("checkpoint.lane: not delivered, tried again: %s", reason)
        return self._delay(self._failures - 1)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # not on every file system
        make_file(Path(target))
        shutil.copyfile(source, target)


def _drop(link: Path | None) -> None:
    if link is not None:
        shutil.rmtree(link.parent, ignore_errors=True)
