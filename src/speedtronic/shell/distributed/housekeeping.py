"""What a leader does now and then to keep a repository on the Hub small.

After so many rounds it squashes the history, in the thread that has just published, so
that nothing else of this leader is under way; then it looks whether the manifest is
still there, and lets go of large files that nothing names any more. A reader in the
middle of a revision that is gone is told Missing and looks again.

Nothing depends on it: a failure is told, and tried again with a later round. Other
lanes keep no history that would have to be squashed.
"""

import logging
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from speedtronic.errors import Denied, LaneError
from speedtronic.pure.config import Config
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.pure.round.events import Publish
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.lanes.counted import CountedLane

logger = logging.getLogger(__name__)


@runtime_checkable
class Squashable(Lane, Protocol):
    """A lane with a history."""

    def squash(self, message: str = ...) -> str:
        """Make the head the only commit; the new head."""

    def release(self, *, kept_s: float = ...) -> int:
        """Delete large files for good that the head does not name; their bytes."""


class Housekeeping:
    """Squashes the history of a lane; call it after each manifest that was published.

    Args:
        lane: with a history.
        rounds: between two squashes.
    """

    def __init__(self, lane: Squashable, rounds: int) -> None:
        self._lane, self._rounds = lane, rounds
        self._done: int | None = None  # periods of so many rounds
        self._denied = False

    def __call__(self, published: Publish) -> None:
        """Squash if it is time to; it never fails."""
        manifest = published.manifest
        period = manifest.round // self._rounds
        if self._done is None:  # begins to lead: what was due before is not known
            self._done = max(0, manifest.round - 1) // self._rounds
        if period == self._done or self._denied:
            return
        try:
            self._squash(manifest.serial, manifest.round)
        except Denied as error:
            self._denied = True
            logger.error("the history is not squashed any more: %s", error)
        except LaneError as error:
            logger.warning("squashing is tried again with the next round: %s", error)
        else:
            self._done = period

    def _squash(self, serial: int, round: int) -> None:
        try:
            head = self._lane.squash(f"history up to round {round}")
        finally:  # it may have been done, whatever was answered
            self._compare(serial)
        freed = self._lane.release()
        logger.info(
            "squashed the history up to round %d into %s, released %d bytes",
            round,
            head[:12],
            freed,
        )

    def _compare(self, serial: int) -> None:
        """Say so if the run went back; its leader goes on from what is there."""
        head = self._lane.head()
        listed = head is not None and names.MANIFEST in self._lane.names("", head)
        if head is None or not listed:
            logger.error("after a squash the lane holds no manifest any more")
            return
        found = manifests.parse(self._lane.read(names.MANIFEST, head)).serial
        if found < serial:
            logger.error(
                "after a squash the manifest has serial %d, it had %d", found, serial
            )


def housekeeping(config: Config, lane: CountedLane) -> Callable[[Publish], None]:
    """What the leader of a run calls after each manifest; on most lanes nothing."""
    inner, rounds = lane.inner, config.distributed.squash_rounds
    if rounds is None or not isinstance(inner, Squashable):
        return lambda published: None
    return Housekeeping(inner, rounds)
