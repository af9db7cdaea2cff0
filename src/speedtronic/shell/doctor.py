"""What this machine can do for a run, and how to mend what it cannot.

Each finding stands alone: one that fails never hides the next. Even torch is imported
only inside, since an installation of it that is broken is a finding, too.
"""

import importlib
import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import attrs

from speedtronic import __version__
from speedtronic.errors import DeviceError
from speedtronic.pure.config import Config, Precision
from speedtronic.shell.paths import why_not_writable

State = Literal["ok", "note", "bad"]  # fine, worth knowing, must be mended
_REQUIRED = (
    "torch",
    "attrs",
    "cattrs",
    "numpy",
    "safetensors",
    "huggingface_hub",
    "PyYAML",
)
_EXTRAS = {  # package -> what it is for
    "tokenizers": "tokenizer.json files",
    "transformers": "models of transformers, and trying an export",
    "datasets": "Hugging Face datasets",
    "zstandard": "compressed text",
    "tensorboard": "logging.hooks: [tensorboard]",
    "wandb": "logging.hooks: [wandb]",
    "trackio": "logging.hooks: [trackio]",
}
_OLDEST_TORCH = (2, 13)
_LITTLE_DISK_BYTES = 2 << 30


@attrs.frozen(kw_only=True)
class Finding:
    """One line of the report."""

    name: str
    state: State
    told: str
    remedy: str = ""


def examine(output_dir: str) -> list[Finding]:
    """Every finding about this machine; compiles one tiny function.

    Args:
        output_dir: where runs would be written.
    """
    parts: list[Callable[[], Iterator[Finding]]] = [versions]
    if _import_error("torch") is None:
        parts += [devices, precisions, peak, compiler, threads]
    parts += [lambda: folder(Path(output_dir)), extras]
    return [finding for part in parts for finding in part()]


def versions() -> Iterator[Finding]:
    """Python, this package and what it is built on."""
    python = f"Python {platform.python_version()} on {platform.machine()}"
    torch_version = _version("torch") or "missing"
    yield Finding(
        name="versions",
        state="ok",
        told=f"Speedtronic {__version__}, torch {torch_version}, {python}",
    )
    missing = [name for name in _REQUIRED if _version(name) is None]
    if missing:
        yield Finding(
            name="packages",
            state="bad",
            told=f"not installed: {', '.join(missing)}",
            remedy=f"pip install {' '.join(missing)}",
        )
    if (why := _import_error("torch")) is not None:
        yield Finding(
            name="torch",
            state="bad",
            told=f"cannot be imported: {why}",
            remedy="install torch again, see pytorch.org/get-started",
        )
    elif tuple(map(int, torch_version.split(".")[:2])) < _OLDEST_TORCH:
        yield Finding(
            name="torch",
            state="bad",
            told=f"torch {torch_version} is too old, 2.13 or later is needed",
            remedy="pip install --upgrade torch",
        )


def devices() -> Iterator[Finding]:
    """What ``run.device`` may be."""
    import torch

    from speedtronic.shell.device import available_devices

    found = available_devices()
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    told = ", ".join(found) + (f" ({', '.join(names)})" if names else "")
    yield Finding(name="devices", state="ok", told=told)
    if shutil.which("nvidia-smi") and "cuda" not in found:
        yield Finding(
            name="cuda",
            state="note",
            told="there is an NVIDIA driver, but this torch does not see a GPU",
            remedy="install a CUDA build of torch, see pytorch.org/get-started",
        )


def precisions() -> Iterator[Finding]:
    """What ``precision.mode`` may be on each kind of device."""
    import torch

    from speedtronic.shell.device import (
        ARITHMETIC,
        available_devices,
        choose_arithmetic,
    )

    def refusal(mode: str, device: torch.device) -> str | None:
        try:
            choose_arithmetic(Precision(mode=mode), device)
        except DeviceError as error:
            return str(error)
        return None

    for name in available_devices():
        if ":" in name:
            continue
        refused = {mode: refusal(mode, torch.device(name)) for mode in ARITHMETIC}
        works = [mode for mode, why in refused.items() if why is None]
        told = [f"{name} runs {', '.join(works)}", *filter(None, refused.values())]
        yield Finding(name="precision", state="ok", told="; ".join(told))


def peak() -> Iterator[Finding]:
    """What each kind of device computes at most, in the precision that auto means."""
    import torch

    from speedtronic.shell.device import available_devices, choose_arithmetic
    from speedtronic.shell.peak import measured_peak

    for name in available_devices():
        if ":" in name:
            continue
        arithmetic = choose_arithmetic(Precision(), torch.device(name))
        dtype = arithmetic.autocast or torch.float32
        flops = measured_peak(torch.device(name), dtype)
        told = (
            f"{name} does {flops / 1e9:.0f} GFLOP/s in {arithmetic.name} products now"
        )
        yield Finding(name="peak", state="ok", told=told)


def compiler() -> Iterator[Finding]:
    """Whether `torch.compile` can build anything at all."""
    import torch

    try:
        step = torch.compile(lambda x: torch.sin(x) * 2, fullgraph=True)
        step(torch.ones(8))
    except Exception as error:  # anything a compiler and its tools can raise
        yield Finding(
            name="compiler",
            state="note",
            told=f"torch.compile does not work: {_first_line(error)}",
            remedy="install a C++ compiler (Debian: apt install g++), or leave "
            "compile.enabled at false",
        )
    else:
        yield Finding(name="compiler", state="ok", told="torch.compile works")


def threads() -> Iterator[Finding]:
    """CPU threads against the cores that this process may use."""
    import torch

    used = torch.get_num_threads()
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    if used > cores:
        yield Finding(
            name="threads",
            state="note",
            told=f"torch uses {used} threads on {cores} cores, which is slow",
            remedy=f"set run.threads: {cores}",
        )
    else:
        yield Finding(name="threads", state="ok", told=f"{used} on {cores} cores")


def folder(path: Path) -> Iterator[Finding]:
    """Whether runs can be written, and how much room there is."""
    if (why := why_not_writable(path)) is not None:
        yield Finding(
            name="folder",
            state="bad",
            told=why,
            remedy="set run.output_dir to a folder of yours",
        )
        return
    there = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    free = shutil.disk_usage(there).free
    little = free < _LITTLE_DISK_BYTES
    yield Finding(
        name="folder",
        state="note" if little else "ok",
        told=f"{path} can be written, {free / (1 << 30):.1f} GiB free",
        remedy="make room, or lower checkpoint.keep_last" if little else "",
    )


def shapes(config: Config) -> Iterator[Finding]:
    """The shapes of a config, and advice on them if its device is here."""
    from speedtronic.pure.shapes import profile
    from speedtronic.shell import check

    told = ", ".join(f"{name} {size}" for name, size in profile(config).items())
    yield Finding(name="shapes", state="ok", told=told)
    try:
        found = check.shapes(config)
    except DeviceError:  # told by the check of the config
        return
    for one in found:
        yield Finding(name="shapes", state="note", told=one.told, remedy=one.remedy)


def commits(config: Config, step_s: float | None) -> Iterator[Finding]:
    """Whether a run on the Hub fits into the commits of its repository."""
    from speedtronic.shell.commits import commit_advice

    found = commit_advice(config, step_s)
    if found is not None:
        yield Finding(
            name="commits",
            state="ok" if found.fits else "note",
            told=found.told,
            remedy=found.remedy,
        )


def extras() -> Iterator[Finding]:
    """Optional packages."""
    there = [f"{name} {v}" for name in _EXTRAS if (v := _version(name))]
    yield Finding(name="extras", state="ok", told=", ".join(there) or "none installed")
    missing = [f"{name} ({why})" for name, why in _EXTRAS.items() if not _version(name)]
    if missing:
        yield Finding(
            name="extras",
            state="note",
            told=f"not installed: {', '.join(missing)}",
            remedy="pip install 'speedtronic[NAME]' if you need one",
        )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _import_error(module: str) -> str | None:
    try:
        importlib.import_module(module)
    except Exception as error:  # a broken binary raises what it likes
        return _first_line(error)
    return None


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"
