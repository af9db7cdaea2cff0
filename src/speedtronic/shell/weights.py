"""Start a module from weights that exist already: ``model.init_from``.

Where they come from is found out by `weight_files`. The reference transformer also
takes Llama's names. Every tensor must find its place and every place its tensor; a
model that should take only some of them is a factory that does so itself.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from speedtronic.errors import Damaged, ModelError
from speedtronic.pure.config import Model
from speedtronic.pure.rename import from_llama, llama_config
from speedtronic.pure.round.plain import shorten
from speedtronic.pure.transformer import Transformer
from speedtronic.shell import blobs
from speedtronic.shell.weight_files import Found, find_weights

# What no weight's shape tells, in the words of a Llama config and in ours.
_UNSEEN_BY_LLAMA = {
    "num_attention_heads": "model.n_head",
    "num_key_value_heads": "model.n_kv_head",
    "rope_theta": "model.rope_base",
    "rms_norm_eps": "the norm's epsilon",
    "hidden_act": "the activation",
}


def load_weights(module: nn.Module, init_from: str) -> tuple[str, ...]:
    """Write existing weights into a module's parameters and saved buffers.

    Args:
        module: keeps its dtypes; tied parameters are found in the file under any of
            their names, and under several only if they agree.
        init_from: see `find_weights`.

    Returns:
        What to tell the user, one line each.

    Raises:
        ConfigError, RunError: there are no weights to be found there.
        ModelError: a file is damaged, or a line for each name that is missing or
            unexpected and for each shape, tie or number that differs; the module is
            then as it was.
    """
    with tempfile.TemporaryDirectory(prefix="speedtronic-") as folder:
        found = find_weights(init_from, Path(folder))
        tensors = _read(found)
    if isinstance(module, Transformer):
        _check_config(module.config, found.config, init_from)
        tensors = _under_our_names(tensors, init_from)
    fill(module, tensors, f"model.init_from: {init_from}")
    return (f"model.init_from: {len(tensors)} tensors from {found.told}",)


def fill(module: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy tensors into the module's parameters and saved buffers, by name.

    Raises:
        ModelError: one line for each misfit, with ``where`` before it; the module is
            then as it was.
    """
    places = _places(module)
    told = _misfits(places, tensors, module)
    if told:
        raise ModelError([f"{where}: {line}" for line in told])
    with torch.no_grad():
        for names, place in places:
            place.copy_(next(tensors[name] for name in names if name in tensors))


def _read(found: Found) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for path in found.files:
        try:
            tensors |= blobs.read(path)
        except Damaged as error:
            with path.open("rb") as file:
                pointer = file.read(40).startswith(b"version https://git-lfs")
            advice = "; it is a Git LFS pointer: run git lfs pull" if pointer else ""
            raise ModelError(f"model.init_from: {error}{advice}") from error
    return tensors


def _under_our_names(tensors: dict[str, Tensor], init_from: str) -> dict[str, Tensor]:
    if not any(name.startswith("model.") for name in tensors):
        return tensors
    # Old conversions hold the table of rotary frequencies, which follows from the base.
    kept = {n: t for n, t in tensors.items() if not n.endswith(".inv_freq")}
    try:
        return from_llama(kept)
    except ValueError as error:
        raise ModelError(f"model.init_from: {init_from}: {error}") from error


def _check_config(model: Model, config: Mapping[str, Any], init_from: str) -> None:
    """Refuse what would load and then compute something else."""
    kind = config.get("model_type")
    if kind == "speedtronic":
        told = _unseen(model, config)
    elif kind == "llama":
        told = {"rope_theta": 10000.0, "hidden_act": "silu", **config}
        told.setdefault("num_key_value_heads", told.get("num_attention_heads"))
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        if not isinstance(rope, Mapping):
            raise ModelError(
                f"model.init_from: {init_from}: its rotary positions are"
                f" {shorten(rope)}, expected fields"
            )
        told["rope_theta"] = rope.get("rope_theta", told["rope_theta"])
        if rope.get("rope_type", rope.get("type", "default")) != "default":
            raise ModelError(
                f"model.init_from: {init_from}: its rotary positions are scaled"
                " (rope_scaling), which the reference transformer does not do"
            )
    elif kind is None:
        return
    else:
        raise ModelError(
            f"model.init_from: {init_from} is a {shorten(kind)} model, expected"
            " 'llama' for the reference transformer"
        )
    ours = llama_config(model)
    different = [
        f"model.init_from: {init_from}: {name} is {_told(told[key])} there,"
        f" {ours[key]} here"
        for key, name in _UNSEEN_BY_LLAMA.items()
        if told.get(key, ours[key]) != ours[key]
    ]
    if different:
        raise ModelError(different)


def _unseen(model: Model, config: Mapping[str, Any]) -> dict[str, Any]:
    """What a config of ours says of what no weight's shape tells, in Llama's words."""
    heads = config.get("n_head", model.n_head)
    key_heads = config.get("n_kv_head", model.n_kv_head)
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": heads if key_heads is None else key_heads,
        "rope_theta": config.get("rope_base", model.rope_base),
    }


def _told(value: Any) -> str:
    """A value of a config as a message shows it."""
    return value if isinstance(value, str) and value.isalnum() else shorten(value)


def _places(module: nn.Module) -> list[tuple[list[str], Tensor]]:
    """Each tensor of a saved module with all its names."""
    names: dict[int, list[str]] = {}
    state = module.state_dict(keep_vars=True)
    for name, value in state.items():
        names.setdefault(id(value), []).append(name)
    return [(group, state[group[0]]) for group in names.values()]


def _misfits(
    places: list[tuple[list[str], Tensor]],
    tensors: Mapping[str, Tensor],
    module: nn.Module,
) -> list[str]:
    told = []
    for names, place in places:
        present = [name for name in names if name in tensors]
        if not present:
            told.append(f"{names[0]!r} is missing{_tie_advice(names[0], module)}")
            continue
        first = tensors[present[0]]
        told += [
            f"{present[0]!r} and {name!r} are one tensor here and differ there; set"
            " model.tie_weights: false"
            for name in present[1:]
            if not _same(first, tensors[name])
        ]
        if first.shape != place.shape or _kind(first) != _kind(place):
            told.append(
                f"{present[0]!r} is {_describe(first)} there, {_describe(place)} here"
            )
    known = {name for names, _ in places for name in names}
    return told + [f"{name!r} is unexpected" for name in tensors if name not in known]


def _tie_advice(name: str, module: nn.Module) -> str:
    tied_there = isinstance(module, Transformer) and name == "lm_head.weight"
    return ": the head is tied there; set model.tie_weights: true" if tied_there else ""


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())


def _kind(x: Tensor) -> object:
    """What must agree: any real float fits into any other, integers do not."""
    return "float" if x.is_floating_point() else x.dtype


def _describe(x: Tensor) -> str:
    return f"{x.dtype}{list(x.shape)}".removeprefix("torch.")
