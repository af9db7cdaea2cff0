"""The global generators, captured as numbers and put back."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell import blobs, generators
from speedtronic.shell.generators import Captured, Restored, capture, restore


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Leave the generators of the test run as they were."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


def draw() -> list[Any]:
    return [
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.randn()),
        torch.rand(3).tolist(),
        torch.randn(3).tolist(),
    ]


def through_files(captured: Captured, folder: Path) -> tuple[Any, Any]:
    """What strict JSON and safetensors make of it."""
    blobs.write(folder / "t", captured.tensors)
    return from_json(to_json(captured.values)), blobs.read(folder / "t")


def test_the_next_numbers_are_the_same(tmp_path: Path) -> None:
    """Also with half a pair of Gaussian numbers waiting in Python and NumPy."""
    for _ in range(2):
        captured = capture()
        expected = draw()
        draw()
        assert Restored(reasons=(), notes=()) == restore(
            *through_files(captured, tmp_path)
        )
        assert expected == draw()
        (tmp_path / "t").unlink()
        random.gauss(0, 1)
        np.random.randn()


def test_capturing_draws_nothing() -> None:
    """Saving does not change a run."""
    captured = capture()
    again = capture()

    assert captured.values == again.values
    assert all(torch.equal(captured.tensors[k], x) for k, x in again.tensors.items())
    assert () == captured.reasons


def test_a_capture_does_not_move_with_the_generator() -> None:
    """It is a copy."""
    captured = capture()
    before = captured.tensors["torch.cpu"].clone()
    torch.rand(1)

    assert torch.equal(before, captured.tensors["torch.cpu"])


def test_values_are_plain_json() -> None:
    """Strict JSON, without NaN and without large integers."""
    json.loads(json.dumps(capture().values, allow_nan=False))


def test_another_numpy_generator_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be captured makes the run inexact."""
    monkeypatch.setattr(
        np.random, "get_state", lambda legacy: {"bit_generator": "PCG64"}
    )
    captured = capture()

    (reason,) = captured.reasons
    assert "NumPy's global generator is PCG64, expected MT19937" in reason
    told = restore(captured.values, captured.tensors)
    assert ("the numpy generator is not restored: it was not saved",) == told.reasons


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("python", "the python generator is not restored: it was not saved"),
        ("numpy", "the numpy generator is not restored: it was not saved"),
        ("torch.cpu", "the torch generator of cpu is not restored: it was not saved"),
    ],
)
def test_one_lost_state_does_not_keep_the_others_back(lost: str, told: str) -> None:
    """Each generator is restored by itself, and the lost one is named."""
    captured = capture()
    expected = draw()
    draw()
    tensors = {name: x for name, x in captured.tensors.items() if name != lost}

    assert (told,) == restore(captured.values, tensors).reasons
    same = [a == b for a, b in zip(expected, draw(), strict=True)]
    first = {"python": 0, "numpy": 2, "torch.cpu": 4}[lost]
    assert [first, first + 1] == [i for i, equal in enumerate(same) if not equal]


@pytest.mark.parametrize("name", ["python", "numpy", "torch.cpu"])
@pytest.mark.parametrize("bad", [torch.zeros(3), torch.zeros(0, dtype=torch.int64)])
def test_an_unreadable_state_is_said(name: str, bad: torch.Tensor) -> None:
    """Whatever is in its place, the reason names the generator."""
    captured = capture()
    (reason,) = restore(captured.values, captured.tensors | {name: bad}).reasons

    assert name.removeprefix("torch.") in reason and "is not restored: " in reason


@pytest.mark.parametrize("value", [None, [], {}, {"version": 3}, {"position": -1}])
def test_unreadable_numbers_are_said(value: Any) -> None:
    """Of both generators that have some."""
    captured = capture()
    values = {"python": value, "numpy": value}

    assert 2 == len(restore(values, captured.tensors).reasons)


@pytest.mark.parametrize("device", ["cuda:99", "mps", "xpu:3", "tpu:0"])
def test_an_absent_device_is_only_noted(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can draw from it, so the run stays exact."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.mps, "is_available", lambda: False)
    captured = capture()
    told = restore(
        captured.values, captured.tensors | {f"torch.{device}": torch.zeros(16)}
    )
    assert () == told.reasons
    expected = f"the generator of {device} is left out: no such device here"
    assert (expected,) == told.notes


class FakeDevice:
    """An accelerator whose generator holds one number."""

    def __init__(self, broken: bool = False) -> None:
        self.states = {0: torch.tensor([1]), 1: torch.tensor([2])}
        self.broken = broken

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 2

    def get_rng_state(self, device: str) -> torch.Tensor:
        if self.broken:
            raise RuntimeError("driver is gone")
        return self.states[int(device[-1])]

    def set_rng_state(self, state: torch.Tensor, device: str) -> None:
        if self.broken:
            raise RuntimeError("driver is gone")
        self.states[int(device[-1])] = state


def with_device(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    real = torch.get_device_module

    def module(kind: str) -> Any:
        return device if str(kind) == "cuda" else real(kind)

    monkeypatch.setattr(generators.torch, "get_device_module", module)


def test_every_device_in_use_has_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry for each, put back to the same one."""
    device = FakeDevice()
    with_device(monkeypatch, device)
    captured = capture()
    device.states = {}

    assert Restored(reasons=(), notes=()) == restore(captured.values, captured.tensors)
    assert {0: 1, 1: 2} == {k: int(v) for k, v in device.states.items()}


def test_a_device_that_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """At both ends; the other generators are captured and restored all the same."""
    device = FakeDevice()
    with_device(monkeypatch, device)
    whole = capture()
    device.broken = True
    told = restore(whole.values, whole.tensors)

    expected = "generator of cuda:{} is not {}: driver is gone"
    assert told.reasons == tuple(
        f"the torch {expected.format(i, 'restored')}" for i in range(2)
    )
    assert capture().reasons == tuple(
        f"the {expected.format(i, 'saved')}" for i in range(2)
    )
