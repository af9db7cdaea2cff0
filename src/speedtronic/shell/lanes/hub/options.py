"""What a Hub lane is told: its repository, and how to reach it."""

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import attrs

from speedtronic.pure.config.base import Secret
from speedtronic.shell.lanes.hub.limiter import CommitLimiter

TIMEOUT_S = 90.0
_PART = r"\w(?:[\w.-]{0,94}\w)?"
_REPOSITORY = re.compile(rf"(?!.*(?:--|\.\.)){_PART}/{_PART}(?<!\.git)", re.ASCII)


class Stop(Protocol):
    """What `threading.Event` does: every wait of a lane is a wait for it."""

    def is_set(self) -> bool:
        """Whether to stop."""

    def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds; whether to stop."""


@attrs.frozen(kw_only=True)
class HubOptions:
    """How a lane reaches the Hub; the defaults do for a user who is logged in."""

    token: Secret | None = None  # None: HF_TOKEN or `hf auth login`
    endpoint: str | None = None  # None: HF_ENDPOINT or the Hub itself
    cache: Path = Path(".speedtronic/hub")
    cache_bytes: int = 8 << 30  # the least recently used goes first
    allow_public: bool = False
    timeout_s: float = TIMEOUT_S  # without a byte; a commit takes the Hub up to 60 s
    stop: Stop = attrs.field(factory=threading.Event)
    limiter: CommitLimiter | None = None  # None: the Hub alone counts
    clock: Callable[[], float] = time.monotonic


def repository_problem(repository: str) -> str | None:
    """What is wrong with the name of a repository; None when nothing is.

    >>> repository_problem("me/run")
    >>> repository_problem("run")
    "repository 'run': expected OWNER/NAME of letters, digits, '-', '_' and '.'"
    """
    if _REPOSITORY.fullmatch(repository):
        return None
    expected = "OWNER/NAME of letters, digits, '-', '_' and '.'"
    return f"repository {repository!r}: expected {expected}"
