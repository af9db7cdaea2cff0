"""The global random generators, for user code that draws from them.

The engine itself never does: its randomness is the key in the state. A user's dataset
or model may draw from Python's, NumPy's or torch's global generator, so their states
go into a checkpoint as plain numbers and tensors, and come back on resume. What cannot
be captured or put back is said, and the run is then no longer exact. A device that is
absent on resume is only noted: nothing can draw from it.

Not covered: generators that user code makes itself, and those of worker processes.
"""

import random
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor

_PYTHON, _NUMPY, _TORCH = "python", "numpy", "torch"
_MERSENNE = "MT19937"  # NumPy's global generator, unless somebody put in another
_ACCELERATORS = ("cuda", "mps", "xpu")
# What putting back a state of the wrong shape, type or device may raise.
_UNUSABLE = (KeyError, IndexError, TypeError, ValueError, RuntimeError, AttributeError)


@attrs.frozen(kw_only=True)
class Captured:
    """The states, and what could not be captured."""

    values: dict[str, Any]  # plain, as JSON
    tensors: dict[str, Tensor]
    reasons: tuple[str, ...]  # why resuming is not exact; empty if all is there


@attrs.frozen(kw_only=True)
class Restored:
    """What was not put back."""

    reasons: tuple[str, ...]  # why resuming is not exact
    notes: tuple[str, ...]  # what does not matter here, such as an absent device


def capture() -> Captured:
    """The state of every global generator, which is left as it is.

    Generators of a device that this process has not used are left out.

    >>> captured = capture()
    >>> before = random.random(), np.random.rand(), float(torch.rand(()))
    >>> restore(captured.values, captured.tensors)
    Restored(reasons=(), notes=())
    >>> before == (random.random(), np.random.rand(), float(torch.rand(())))
    True
    """
    version, words, gauss = random.getstate()
    values: dict[str, Any] = {_PYTHON: {"version": version, "gauss": gauss}}
    tensors = {
        _PYTHON: torch.tensor(words, dtype=torch.int64),
        f"{_TORCH}.cpu": torch.get_rng_state().clone(),
    }
    reasons = []
    state = np.random.get_state(legacy=False)
    if state["bit_generator"] == _MERSENNE:
        tensors[_NUMPY] = torch.from_numpy(state["state"]["key"].astype(np.int64))
        values[_NUMPY] = {
            "position": int(state["state"]["pos"]),
            "has_gauss": int(state["has_gauss"]),
            "gauss": float(state["gauss"]),
        }
    else:
        reasons.append(
            f"NumPy's global generator is {state['bit_generator']}, expected"
            f" {_MERSENNE}: its state is not saved"
        )
    for device in _used_devices():
        try:
            tensors[f"{_TORCH}.{device}"] = _of(device).get_rng_state(device).cpu()
        except _UNUSABLE as error:
            reasons.append(f"the generator of {device} is not saved: {error}")
    return Captured(values=values, tensors=tensors, reasons=tuple(reasons))


def restore(values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Restored:
    """Put back what `capture` gave, each generator by itself.

    Returns:
        What was not put back; a generator without a saved state is one of them.
    """
    reasons, notes = [], []
    for name, put_back in ((_PYTHON, _restore_python), (_NUMPY, _restore_numpy)):
        try:
            put_back(values[name], tensors[name])
        except _UNUSABLE as error:
            reasons.append(f"the {name} generator is not restored: {_told(error)}")
    saved = {n for n in tensors if n.startswith(f"{_TORCH}.")} | {f"{_TORCH}.cpu"}
    for name in sorted(saved):
        device = name.removeprefix(f"{_TORCH}.")
        if not _is_here(device):
            notes.append(f"the generator of {device} is left out: no such device here")
            continue
        try:
            if device == "cpu":
                torch.set_rng_state(tensors[name])
            else:
                _of(device).set_rng_state(tensors[name], device)
        except _UNUSABLE as error:
            reasons.append(
                f"the torch generator of {device} is not restored: {_told(error)}"
            )
    return Restored(reasons=tuple(reasons), notes=tuple(notes))


def _restore_python(value: Mapping[str, Any], words: Tensor) -> None:
    random.setstate((value["version"], tuple(words.tolist()), value["gauss"]))


def _restore_numpy(value: Mapping[str, Any], key: Tensor) -> None:
    np.random.set_state(
        {
            "bit_generator": _MERSENNE,
            "state": {"key": key.numpy().astype(np.uint32), "pos": value["position"]},
            "has_gauss": value["has_gauss"],
            "gauss": value["gauss"],
        }
    )


def _told(error: Exception) -> str:
    return "it was not saved" if isinstance(error, KeyError) else str(error)


def _of(device: str) -> Any:
    return torch.get_device_module(torch.device(device).type)


def _used_devices() -> list[str]:
    """Accelerators that this process has touched, without touching any other."""
    found = []
    for kind in _ACCELERATORS:
        module = torch.get_device_module(kind)
        if kind == "mps":
            found += ["mps"] if torch.backends.mps.is_available() else []
        elif module.is_available() and module.is_initialized():
            found += [f"{kind}:{index}" for index in range(module.device_count())]
    return found


def _is_here(device: str) -> bool:
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return True
    if kind not in _ACCELERATORS:
        return False
    module = torch.get_device_module(kind)
    return bool(module.is_available()) and int(index or 0) < module.device_count()
