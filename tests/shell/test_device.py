"""Devices and arithmetic: what runs, what is refused, what is put back."""

import pytest
import torch

from speedtronic.errors import DeviceError
from speedtronic.pure.config import Optimizer, Precision, Run
from speedtronic.shell import device
from speedtronic.shell.device import (
    choose_arithmetic,
    choose_device,
    choose_iterations,
    machine,
    seeded,
)

CPU = torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_missing_device_is_refused_with_what_there_is() -> None:
    """No silent fallback to the CPU."""
    with pytest.raises(DeviceError, match=r"'cuda' is not on this machine.* cpu"):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("cpu", ["cpu", "cuda", "cuda:0"], "cpu"),
        ("auto", ["cpu", "mps"], "cpu"),
        ("auto", ["cpu", "cuda", "cuda:0", "cuda:1"], "cuda:1"),
        ("cuda", ["cpu", "cuda", "cuda:0", "cuda:1"], "cuda:1"),
    ],
)
def test_each_rank_has_a_device(
    monkeypatch: pytest.MonkeyPatch, name: str, found: list[str], expected: str
) -> None:
    """Of its own, or all of them share the CPU."""
    monkeypatch.setattr(device, "available_devices", lambda: found)

    assert torch.device(expected) == choose_device(name, 1)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("cuda", r"rank 1 of this machine needs cuda:1, found cpu, cuda, cuda:0"),
        ("cuda:0", r"expected auto, cuda or cpu for a node of several ranks"),
        ("mps", r"expected auto, cuda or cpu for a node of several ranks"),
    ],
)
def test_ranks_do_not_share_an_accelerator(
    monkeypatch: pytest.MonkeyPatch, name: str, line: str
) -> None:
    """One more than there are devices is refused."""
    found = ["cpu", "cuda", "cuda:0"]
    monkeypatch.setattr(device, "available_devices", lambda: found)
    with pytest.raises(DeviceError, match=line):
        choose_device(name, 1)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (Precision(), "fp32"),
        (Precision(mode="bf16"), "bf16"),
        (Precision(dtype="bf16"), "bf16"),
        (Precision(mode="fp16"), "fp16"),
    ],
    ids=["auto", "bf16", "older name", "fp16"],
)
def test_the_arithmetic_is_what_was_asked_for(
    section: Precision, expected: str
) -> None:
    """Only fp16 scales its loss."""
    chosen = choose_arithmetic(section, CPU)

    assert (expected, expected == "fp16") == (chosen.name, chosen.scaled)


def test_an_arithmetic_that_does_not_run_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message names the reason and a way out."""

    def refuse(*args: object) -> None:
        raise RuntimeError("no kernel for Half")

    monkeypatch.setattr(torch.nn.functional, "linear", refuse)
    with pytest.raises(DeviceError, match=r"fp16 does not run on cpu .no kernel.*fp32"):
        choose_arithmetic(Precision(mode="fp16"), CPU)


def test_the_machine_is_put_back_as_it_was() -> None:
    """Threads and determinism hold for the run only, also when it fails."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with pytest.raises(LookupError), machine(Run(threads=1), CPU):
        assert torch.are_deterministic_algorithms_enabled()
        assert 1 == torch.get_num_threads()
        raise LookupError

    after = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    assert before == after


def test_a_seed_holds_inside_and_leaves_no_trace() -> None:
    """The global generator goes on as if nothing had been drawn."""
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with seeded(7, CPU):
        first = torch.rand(2)
    with seeded(7, CPU):
        assert torch.equal(first, torch.rand(2))

    assert torch.equal(expected, torch.rand(2))


@pytest.mark.parametrize(
    ("wanted", "able", "expected"),
    [
        ("auto", {"avx2": True}, torch.float32),
        ("auto", {"avx512_bf16": True}, torch.bfloat16),
        ("auto", {"amx_bf16": True, "avx512_bf16": False}, torch.bfloat16),
        ("fp32", {"amx_bf16": True}, torch.float32),
        ("bf16", {}, torch.bfloat16),
    ],
)
def test_muon_iterates_in_what_the_processor_is_built_for(
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    able: dict[str, bool],
    expected: torch.dtype,
) -> None:
    """It is asked, not timed: a resumed run must not come to something else."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    section = Optimizer(name="muon", muon_iteration_dtype=wanted)

    assert expected == choose_iterations(section, CPU)


def test_bf16_that_does_not_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the field and what to use."""
    monkeypatch.setattr(device, "_fails", lambda *_: "not implemented")
    section = Optimizer(name="muon", muon_iteration_dtype="bf16")
    with pytest.raises(DeviceError, match="bf16 does not run on cpu .*; use fp32"):
        choose_iterations(section, CPU)


def test_without_muon_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even of a device that could not do it."""
    monkeypatch.setattr(device, "_fails", lambda *_: "not implemented")

    assert torch.float32 == choose_iterations(
        Optimizer(muon_iteration_dtype="bf16"), CPU
    )
