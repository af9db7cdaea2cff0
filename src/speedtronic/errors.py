"""Every error that Speedtronic raises about the world, in one tree.

::

    SpeedtronicError
    |- ConfigError      the user's input is wrong (exit code 2)
    |- DataError        a source is missing, too short, badly encoded or changed (2)
    |- DeviceError      a device or precision that cannot run was asked for (2)
    |- ModelError       the model does not build or breaks its contract (2)
    |- RunError         a run directory cannot be used as asked (2)
    |- StorageError     a file or folder cannot be written, and why (1)
    |- CheckpointError  a checkpoint is foreign, does not fit or cannot be written (1)
    |  `- Damaged       its bytes are not those that were written
    |- TrainingError    the run failed: non-finite loss, no usable step (1)
    |- RankError        another process of this node failed (its exit code)
    `- LaneError        the transport between nodes failed (1)
       |- Conflict      the head moved: read again, decide again
       |- Unavailable   nobody knows whether it was applied: reconcile first
       |- Denied        not allowed: permanent
       |- Missing       no such name or revision
       `- Corrupt       the bytes are not what the manifest says

A message is one line: where, what was expected, what was found, what to do.
Several mistakes that the user can mend together are raised together.
"""

from collections.abc import Sequence


class SpeedtronicError(Exception):
    """The root of the tree; ``exit_code`` is what the command line returns."""

    exit_code = 1


class UserError(SpeedtronicError):
    """The user's input is wrong; ``problems`` holds one line per mistake."""

    exit_code = 2

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class ConfigError(UserError):
    """A config or a command line that cannot be used."""


class DataError(UserError):
    """A data source that cannot be used."""


class DeviceError(UserError):
    """A device or precision that this machine cannot run."""


class ModelError(UserError):
    """A model that does not build or does not keep its contract."""


class RunError(UserError):
    """A run directory that cannot be used as asked."""


class StorageError(SpeedtronicError):
    """A file or folder that cannot be written; the message says why."""


class CheckpointError(SpeedtronicError):
    """A checkpoint that is damaged, foreign, does not fit or cannot be written."""


class Damaged(CheckpointError):
    """A checkpoint, or a file of one, that is not what was written."""


class TrainingError(SpeedtronicError):
    """A run that failed."""


class RankError(SpeedtronicError):
    """Another process of this node failed or is gone; this one ends as it did."""

    def __init__(self, message: str = "", *, exit_code: int = 1) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class LaneError(SpeedtronicError):
    """A transport that failed."""


class Conflict(LaneError):
    """The head moved since it was read: read again and decide again."""


class Unavailable(LaneError):
    """No answer: the operation may have been applied, reconcile before retrying.

    ``retry_after_s`` is how long asking again is in vain, None if nobody said.
    """

    def __init__(self, message: str = "", *, retry_after_s: float | None = None):
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Denied(LaneError):
    """Not allowed, and never will be without a change by a person."""


class Missing(LaneError):
    """No such name or revision."""


class Corrupt(LaneError):
    """The bytes are not those that the manifest names."""
