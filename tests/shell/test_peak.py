"""The measured peak."""

import itertools
from collections.abc import Callable

import pytest
import torch

from speedtronic.shell import peak
from speedtronic.shell.peak import measured_peak

CPU = torch.device("cpu")


def clock(step: float) -> Callable[[], float]:
    """A clock that goes on by so much whenever somebody looks at it."""
    ticks = itertools.count()
    return lambda: step * next(ticks)


def test_a_slow_device_is_measured_once() -> None:
    """One product of the least size takes long enough."""
    assert 2 * 256**3 / 0.5 == measured_peak(CPU, clock=clock(0.5))


def test_a_fast_device_gets_larger_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a size that fits everywhere; the fastest counts."""
    monkeypatch.setattr(peak, "_SIZES", (2, 4, 8))
    found = measured_peak(CPU, torch.float64, clock=clock(0.001))

    assert pytest.approx(2 * 8**3 / 0.001) == found


def test_the_fastest_of_several_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else the machine does only makes a product slower."""
    monkeypatch.setattr(peak, "_SIZES", (2,))
    times = iter([0.0, 9.0, 0.0, 4.0, 0.0, 2.0, 0.0, 3.0, 0.0, 5.0, 0.0, 6.0])

    assert 2 * 2**3 / 2.0 == measured_peak(CPU, clock=lambda: next(times))
