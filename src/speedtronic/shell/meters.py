"""Where the time of a run goes, and how much memory it holds.

A GPU computes behind the host, so nothing here tries to time a kernel: all time of the
training thread that is not waiting for data, evaluating, saving or compiling is
compute, and a lap is taken right after the copy from the device that a record needs.
"""

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import attrs
import torch

Part = Literal["data", "compute", "evaluation", "checkpoint", "compile", "round"]


@attrs.frozen(kw_only=True)
class Lap:
    """The time since the lap before; the names are those of `StepRecord`."""

    data_seconds: float
    compute_seconds: float
    evaluation_seconds: float
    checkpoint_seconds: float
    compile_seconds: float
    round_seconds: float
    wall_seconds: float  # cumulative, resumed attempts included
    tokens_per_second: float | None  # None where a compiled step makes it meaningless


class Stopwatch:
    """Splits the time of one thread into parts that add up to all of it.

    Args:
        clock: seconds from any origin, never going back.
        wall_seconds: what earlier attempts of the run took.
        tokens: what earlier attempts of the run trained on.

    >>> seconds = iter([0.0, 1.0, 3.0, 4.0])
    >>> watch = Stopwatch(clock=lambda: next(seconds))
    >>> with watch.measure("data"):
    ...     batch = "a batch that took two seconds"
    >>> lap = watch.lap(tokens=800)
    >>> lap.data_seconds, lap.compute_seconds, lap.tokens_per_second
    (2.0, 2.0, 200.0)
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        wall_seconds: float = 0.0,
        tokens: int = 0,
    ) -> None:
        self._clock = clock
        self._wall = wall_seconds
        self._tokens = tokens
        self._part: Part = "compute"
        self._spent: dict[Part, float] = {}
        self._since = clock()

    @contextmanager
    def measure(self, part: Part) -> Iterator[None]:
        """Count the time inside as ``part``; the innermost part counts."""
        outer = self._switch(part)
        try:
            yield
        finally:
            self._switch(outer)

    def lap(self, tokens: int) -> Lap:
        """The time since the lap before, and the rate over data and compute.

        Args:
            tokens: trained on so far in the whole run.
        """
        self._switch(self._part)
        spent, self._spent = self._spent, {}
        done, self._tokens = tokens - self._tokens, tokens
        self._wall += sum(spent.values())
        working = spent.get("data", 0.0) + spent.get("compute", 0.0)
        rated = working > 0 and "compile" not in spent
        return Lap(
            data_seconds=spent.get("data", 0.0),
            compute_seconds=spent.get("compute", 0.0),
            evaluation_seconds=spent.get("evaluation", 0.0),
            checkpoint_seconds=spent.get("checkpoint", 0.0),
            compile_seconds=spent.get("compile", 0.0),
            round_seconds=spent.get("round", 0.0),
            wall_seconds=self._wall,
            tokens_per_second=done / working if rated else None,
        )

    def _switch(self, part: Part) -> Part:
        """Count the time up to now for the current part, then change to ``part``."""
        now = self._clock()
        spent = self._spent.get(self._part, 0.0)
        self._spent[self._part] = spent + now - self._since
        before, self._part, self._since = self._part, part, now
        return before


def memory_bytes(device: torch.device) -> int:
    """Memory that this process holds on the device it trains on.

    On CUDA and MPS that is what the allocator took from the driver, its reserve
    included; on a CPU it is the resident set.
    """
    if device.type == "cuda":
        return torch.cuda.memory_reserved(device)
    if device.type == "mps":
        return int(torch.mps.driver_allocated_memory())
    return _resident_bytes()


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # no /proc: the largest resident set so far is all there is
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return pages * os.sysconf("SC_PAGE_SIZE")
