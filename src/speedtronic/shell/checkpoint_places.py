"""Which lanes a run takes its checkpoints from and brings them to.

They are opened before long preparations, so that a mistake costs no time. A lane that
does not answer ends a run at its start, unless a whole checkpoint is in its folder.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from speedtronic.errors import ConfigError, LaneError, RunError, Unavailable
from speedtronic.pure.config import Config
from speedtronic.pure.config.run import lane_form
from speedtronic.shell.checkpoint_delivery import Delivery
from speedtronic.shell.checkpoint_folder import find
from speedtronic.shell.checkpoint_lane import LaneCheckpoints
from speedtronic.shell.distributed.identity import node_name
from speedtronic.shell.distributed.lane import open_checkpoint_lane, patiently
from speedtronic.shell.paths import run_folder
from speedtronic.shell.rundir import Mode

logger = logging.getLogger(__name__)
_RESUMING: tuple[Mode, ...] = ("auto", "resume")


class Places:
    """The lanes of a run's checkpoints; none if the config and the user name none.

    Args:
        config: of the run.
        resume: what the user asked to go on from, if it is a lane.
        mode: how the run's folder will be opened.

    Raises:
        ConfigError, RunError: its name will not do.
    """

    def __init__(self, config: Config, resume: str | None, mode: Mode) -> None:
        self._stop = threading.Event()
        self._config, self._mode = config, mode
        self._warned = False
        self._folder = run_folder(config)
        self._checkpoints = self._folder / config.checkpoint.directory
        named = config.checkpoint.lane
        if named is not None and not config.checkpoint.enabled:
            raise ConfigError("checkpoint.lane: needs checkpoint.enabled")
        # A lane that is only read is not made.
        self._target = None if named is None else self._of(config, named, True)
        self._source = self._target
        self._required = resume is not None
        if resume is not None and resume != named:
            self._source = self._of(config, resume, False)

    def reach(self) -> None:
        """Open the lanes, before anything else is done.

        Raises:
            ConfigError, RunError: one will not do, or does not answer and is needed.
        """
        for place in dict.fromkeys((self._source, self._target)):
            if place is None:
                continue
            with self._told():
                if self._here is None:
                    head = partial(_head, place)
                    patiently(head, self._config, self._stop, place.where)
                else:
                    _head(place)

    def prepare(self) -> None:
        """Make the run's folder and the lanes fit; call it with the folder's lock.

        Raises:
            RunError: a lane holds another run, or does not answer and is needed.
        """
        source, target = self._source, self._target
        if self._mode == "auto" and source is not None:
            with self._told():
                source.restore(self._folder, self._checkpoints, required=self._required)
        elif self._mode == "new" and target is not None:
            with self._told():
                target.refuse_another()
        elif self._mode == "overwrite" and target is not None:
            with self._told():
                target.clear()

    def deliver(self, stack: ExitStack, resumed: Path | None) -> Callable[[Path], None]:
        """Bring checkpoints to the run's lane, if it has one, while the stack lasts.

        Args:
            stack: at its end the last one has a bounded time.
            resumed: what the run goes on from, which the lane may not have yet.

        Returns:
            To be told of each checkpoint.
        """
        if self._target is None:
            return lambda path: None
        delivery = Delivery(self._target, self._folder, self._stop)
        stack.enter_context(delivery)
        if resumed is not None and resumed.parent == self._checkpoints:
            delivery.offer(resumed)
        return delivery.offer

    def deliver_again(self, stack: ExitStack) -> None:
        """Bring the newest checkpoint of a finished run, if it was not delivered."""
        self.deliver(stack, self._here)

    def _of(self, config: Config, text: str, creates: bool) -> LaneCheckpoints:
        name = config.run.name
        if config.distributed.enabled:
            name = f"{name}/{node_name(config)}"
        opens = partial(open_checkpoint_lane, config, text, self._stop, create=creates)
        return LaneCheckpoints(text, name, opens)

    @property
    def _here(self) -> Path | None:
        """A checkpoint that the run may go on from without any lane."""
        return find(self._checkpoints).path if self._mode in _RESUMING else None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except LaneError as error:
            here = self._here if isinstance(error, Unavailable) else None
            if here is None:
                raise RunError(f"checkpoint.lane: {error}") from error
            if not self._warned:
                logger.warning("checkpoint.lane: goes on from %s: %s", here, error)
            self._warned = True


def _head(place: LaneCheckpoints) -> None:
    place.lane.head()


def lane_of(resume: bool | str) -> str | None:
    """The lane that a user asks to go on from, if it is one.

    >>> lane_of("hub:me/run"), lane_of("auto"), lane_of(True)
    ('hub:me/run', None, None)
    """
    is_lane = isinstance(resume, str) and lane_form(resume) is None
    return str(resume) if is_lane else None
