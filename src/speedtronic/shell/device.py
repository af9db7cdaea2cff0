"""Which device runs, with which arithmetic, and whether its bits repeat.

Nothing falls back silently: what was asked for runs, or is refused with a suggestion.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import attrs
import torch

from speedtronic.errors import DeviceError
from speedtronic.pure import config as C


@attrs.frozen(kw_only=True)
class Arithmetic:
    """How the forward and backward pass compute; weights and moments are float32."""

    name: str  # fp32, bf16 or fp16
    autocast: torch.dtype | None  # None for fp32
    scaled: bool  # whether the loss is scaled (fp16)


ARITHMETIC = {
    "fp32": Arithmetic(name="fp32", autocast=None, scaled=False),
    "bf16": Arithmetic(name="bf16", autocast=torch.bfloat16, scaled=False),
    "fp16": Arithmetic(name="fp16", autocast=torch.float16, scaled=True),
}


_CPU_BF16 = ("amx_bf16", "avx512_bf16", "arm_bf16")


def available_devices() -> list[str]:
    """Names that `choose_device` accepts on this machine.

    >>> "cpu" in available_devices()
    True
    """
    found = ["cpu"]
    if torch.cuda.is_available():
        found += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def choose_device(name: str, local_rank: int | None = None) -> torch.device:
    """The device of a config's ``run.device``.

    Args:
        name: from the config.
        local_rank: of a process that is one of several of its node, which have a CUDA
            device each or share the CPU.

    Raises:
        DeviceError: if this machine does not have it.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    found = available_devices()
    if local_rank is not None:
        return _device_of_rank(name, local_rank, found)
    if name == "auto":
        name = next((d for d in ("cuda", "mps") if d in found), "cpu")
    if name not in found:
        raise DeviceError(
            f"run.device: {name!r} is not on this machine, expected one of"
            f" {', '.join(found)}; use run.device: auto"
        )
    if name == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device(name)


def _device_of_rank(name: str, local_rank: int, found: list[str]) -> torch.device:
    if name == "cpu" or (name == "auto" and "cuda" not in found):
        return torch.device("cpu")
    if name not in ("auto", "cuda"):
        raise DeviceError(
            f"run.device: expected auto, cuda or cpu for a node of several ranks, found"
            f" {name!r}, which is one device"
        )
    own = f"cuda:{local_rank}"
    if own not in found:
        raise DeviceError(
            f"run.device: rank {local_rank} of this machine needs {own}, found"
            f" {', '.join(found)}; start one rank per CUDA device, or use"
            " run.device: cpu"
        )
    return torch.device(own)


def choose_arithmetic(precision: C.Precision, device: torch.device) -> Arithmetic:
    """The arithmetic of a config's ``precision`` on a device.

    ``auto`` is bf16 on a GPU that has it, fp16 on one that has not, else fp32 (on the
    CPUs measured bf16 without native instructions is slower, see the benchmarks).

    Raises:
        DeviceError: if a small step in that arithmetic does not run.
    """
    mode = precision.dtype if precision.mode == "auto" else precision.mode
    if mode in (None, "auto"):
        mode = "fp32"
        if device.type == "cuda":
            mode = "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    assert mode is not None
    chosen = ARITHMETIC[mode]
    if chosen.autocast is not None and (told := _fails(device, chosen.autocast)):
        raise DeviceError(
            f"precision.mode: {mode} does not run on {device} ({told}); use"
            " precision: fp32"
        )
    return chosen


def choose_iterations(optimizer: C.Optimizer, device: torch.device) -> torch.dtype:
    """The arithmetic of Muon's iterations on a device.

    ``auto`` goes by what the device says of itself and not by the clock, so that a
    resumed run goes on in the same: bfloat16 on a CUDA device that has it and on a CPU
    with instructions for it, else float32.

    Raises:
        DeviceError: if bfloat16 is asked for and does not run.

    >>> choose_iterations(C.Optimizer(muon_iteration_dtype="fp32"), torch.device("cpu"))
    torch.float32
    """
    wanted = optimizer.muon_iteration_dtype
    if optimizer.name != "muon" or wanted == "fp32":
        return torch.float32
    if wanted == "auto":
        return torch.bfloat16 if _built_for_bf16(device) else torch.float32
    if told := _fails(device, torch.bfloat16):
        raise DeviceError(
            f"optimizer.muon_iteration_dtype: bf16 does not run on {device} ({told});"
            " use fp32"
        )
    return torch.bfloat16


def _built_for_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    able: Any = torch.cpu.get_capabilities()
    return any(able.get(name, False) for name in _CPU_BF16)


def _fails(device: torch.device, dtype: torch.dtype) -> str | None:
    try:
        x = torch.ones(8, 8, device=device, requires_grad=True)
        with torch.autocast(device.type, dtype):
            y = torch.nn.functional.linear(x, x)
        torch.autograd.grad(y.float().sum(), x)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None if bool(torch.isfinite(y).all()) else "it gives non-finite numbers"


@contextlib.contextmanager
def machine(run: C.Run, device: torch.device) -> Iterator[None]:
    """Threads and deterministic algorithms for one run; put back afterwards."""
    threads = torch.get_num_threads()
    was = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    options: Any = torch.utils.deterministic
    fill = options.fill_uninitialized_memory
    if device.type == "cuda" and run.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if run.threads is not None:
        torch.set_num_threads(run.threads)
    torch.use_deterministic_algorithms(run.deterministic)
    # No kernel here reads memory that it did not write; filling it would cost time.
    options.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(was, warn_only=warn_only)
        options.fill_uninitialized_memory = fill


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's generators seeded inside, as they were outside.

    For models that draw from them by themselves; see `speedtronic.pure.dropout`.
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        # Not torch.manual_seed: for each kind of device that is not there it formats
        # the stack, which costs a small model a tenth of its step.
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        elif device.type == "mps":
            torch.mps.manual_seed(seed)
        yield
