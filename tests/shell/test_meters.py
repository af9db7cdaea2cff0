"""Time split into parts that add up, and memory in use."""

import math
from collections.abc import Callable
from pathlib import Path

import attrs
import psutil
import pytest
import torch

from speedtronic.shell import meters
from speedtronic.shell.meters import Stopwatch, memory_bytes
from speedtronic.testing.records import example_record


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def test_the_parts_add_up_to_the_wall_time() -> None:
    """What is not measured as anything else is compute."""
    clock = FakeClock()
    watch = Stopwatch(clock=clock)
    parts = [("data", 1.0), ("evaluation", 2.0), ("checkpoint", 4.0), ("round", 8.0)]
    for part, seconds in parts:
        with watch.measure(part):  # type: ignore[arg-type]
            clock.spend(seconds)
        clock.spend(0.5)
    lap = watch.lap(tokens=250)

    assert (1.0, 2.0, 2.0, 4.0, 0.0, 8.0, 17.0, 83.333) == tuple(
        round(x, 3) for x in attrs.astuple(lap)
    )


def test_each_lap_starts_from_zero_and_the_wall_time_goes_on() -> None:
    """Seconds belong to one record, wall time to the run, resumed ones included."""
    clock = FakeClock()
    watch = Stopwatch(clock=clock, wall_seconds=1000.0, tokens=500)
    clock.spend(2.0)
    first = watch.lap(tokens=600)
    with watch.measure("data"):
        clock.spend(1.0)
    second = watch.lap(tokens=700)

    assert (2.0, 1002.0, 50.0) == (
        first.compute_seconds,
        first.wall_seconds,
        first.tokens_per_second,
    )
    assert (0.0, 1.0, 1003.0, 100.0) == (
        second.compute_seconds,
        second.data_seconds,
        second.wall_seconds,
        second.tokens_per_second,
    )


def test_saving_and_evaluating_do_not_slow_the_rate() -> None:
    """The rate is over data and compute only."""
    clock = FakeClock()
    watch = Stopwatch(clock=clock)
    clock.spend(1.0)
    with watch.measure("checkpoint"):
        clock.spend(50.0)

    assert 10.0 == watch.lap(tokens=10).tokens_per_second


def test_a_compiled_step_has_no_rate() -> None:
    """Its first run is inside the compile time, so tokens over the rest would lie."""
    clock = FakeClock()
    watch = Stopwatch(clock=clock)
    with watch.measure("compile"):
        clock.spend(30.0)
    clock.spend(0.001)
    lap = watch.lap(tokens=1024)

    assert (30.0, None) == (lap.compile_seconds, lap.tokens_per_second)
    clock.spend(1.0)
    assert math.isclose(1024.0, watch.lap(tokens=2048).tokens_per_second or 0.0)


def test_no_time_gives_no_rate() -> None:
    """A clock that stands still is not an infinite speed."""
    assert Stopwatch(clock=lambda: 0.0).lap(tokens=10).tokens_per_second is None


def test_the_innermost_part_counts_and_errors_end_it() -> None:
    """Nested parts share no second; an exception returns to the outer part."""
    clock = FakeClock()
    watch = Stopwatch(clock=clock)
    with watch.measure("evaluation"):
        clock.spend(1.0)
        with pytest.raises(KeyError), watch.measure("compile"):
            clock.spend(2.0)
            raise KeyError
        clock.spend(4.0)
    clock.spend(8.0)
    lap = watch.lap(tokens=0)

    assert (5.0, 2.0, 8.0) == (
        lap.evaluation_seconds,
        lap.compile_seconds,
        lap.compute_seconds,
    )


def test_a_lap_fits_a_record() -> None:
    """Its names are fields of the record."""
    lap = Stopwatch(clock=lambda: 1.0, wall_seconds=3.0).lap(tokens=1)

    assert 3.0 == example_record(1, **attrs.asdict(lap)).wall_seconds


def test_memory_on_a_cpu_is_the_resident_set() -> None:
    """It agrees with what the system says of this process."""
    found = memory_bytes(torch.device("cpu"))

    assert math.isclose(psutil.Process().memory_info().rss, found, rel_tol=0.2)


def test_memory_without_proc_is_the_largest_resident_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Systems without /proc give a number of the same size."""

    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    found = memory_bytes(torch.device("cpu"))

    assert found >= 0.8 * psutil.Process().memory_info().rss


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("cuda", "torch.cuda.memory_reserved"),
        ("mps", "torch.mps.driver_allocated_memory"),
    ],
)
def test_memory_of_an_accelerator_is_what_the_allocator_took(
    kind: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's number for the device in use."""
    answer: Callable[..., int] = lambda *device: 4096
    monkeypatch.setattr(function, answer)

    assert 4096 == meters.memory_bytes(torch.device(kind))
