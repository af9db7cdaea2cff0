"""Parsers of files: tensors, checkpoints, runs and weights."""

import hashlib
import json
from random import Random
from typing import Any

from properties.fuzz.arena import Arena
from properties.fuzz.made import BUFFERS, LIKE, MADE, PARAMS, SMALL, as_json, lay
from properties.fuzz.mutate import NAMES, change_header, change_json
from properties.fuzz.target import Target

from speedtronic.errors import (
    CheckpointError,
    ConfigError,
    Corrupt,
    Damaged,
    LaneError,
    ModelError,
    RunError,
)
from speedtronic.pure.config import Config
from speedtronic.pure.delta import Weights
from speedtronic.pure.strict_json import to_json
from speedtronic.pure.transformer import Transformer
from speedtronic.shell import blobs, checkpoint
from speedtronic.shell.checkpoint_folder import find, resume
from speedtronic.shell.checkpoint_lane import LaneCheckpoints
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.files import (
    read_global,
    read_header,
    read_renamed,
)
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.shell.rundir import RunDirectory
from speedtronic.shell.saved import find_saved
from speedtronic.shell.weights import load_weights


def _tensors(data: bytes, arena: Arena) -> None:
    path = lay(arena, "tensors", {"a": data}) / "a"
    found = blobs.read(path)
    assert blobs.metadata(path) is not None
    size = sum(x.numel() * x.itemsize for x in found.values())
    assert size <= len(data) * max(1, len(found))


def _delta(data: bytes, arena: Arena) -> None:
    path = lay(arena, "delta", {"a": data}) / "a"
    with open_delta(path) as file:
        found = file.inspect(Weights(params=PARAMS, buffers=BUFFERS))
        assert found.payload_bytes <= len(data)
        read_header(file)


def _global(data: bytes, arena: Arena) -> None:
    files = MADE["lane"] | {"model.safetensors": data}
    folder = lay(arena, "global", files)
    read_renamed(folder / "model.safetensors")
    read_global(folder / "model.safetensors", folder / "outer.safetensors", 3)


def _seal_checkpoint(value: Any) -> bytes:
    """The text of a checkpoint's manifest with the right sum of itself."""
    value = {key: item for key, item in value.items() if key != "sha256"}
    text = f"{to_json(value)}\n".encode()
    return f"{to_json(value | {'sha256': hashlib.sha256(text).hexdigest()})}\n".encode()


MANIFEST = json.loads(MADE["checkpoint"]["manifest.json"])


def _checkpoint(data: bytes, arena: Arena) -> None:
    files = MADE["checkpoint"] | {"manifest.json": data}
    folder = lay(arena, "checkpoints/step-00000003", files)
    found = find(folder.parent, "r")
    if found.path is not None:
        assert checkpoint.load(found.path, LIKE).step == 3
    for read in (checkpoint.load, resume):
        try:
            if read is resume:
                resume(folder.parent, LIKE, "r")
            else:
                checkpoint.load(folder, LIKE)
        except CheckpointError:
            continue
    checkpoint.load_model(folder)


def _file_of_checkpoint(name: str) -> Any:
    """Any bytes as a file whose sum the manifest tells right."""

    def parse(data: bytes, arena: Arena) -> None:
        told = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        files = MANIFEST["files"] | {name: told}
        sealed = _seal_checkpoint(MANIFEST | {"files": files})
        content = MADE["checkpoint"] | {name: data, "manifest.json": sealed}
        folder = lay(arena, "checkpoints/step-00000003", content)
        checkpoint.load(folder, LIKE, run_id="r")

    return parse


def _restore(data: bytes, arena: Arena) -> None:
    root = "checkpoints/run"
    files = MADE["checkpoint"] | {"manifest.json": data}
    lane = MemoryLane()
    adds = {f"{root}/step-00000003/{name}": files[name] for name in files}
    lane.commit({**adds, f"{root}/run.json": b'{"run_id": "r"}'}, parent=None)
    folder = lay(arena, "restored", {})
    LaneCheckpoints("memory:", "run", lambda: lane).restore(
        folder, folder / "checkpoints", required=True
    )


RUN = json.loads(MADE["run"]["run.json"])
RUN["finish"] = {"step": 3, "max_steps": 3, "max_minutes": None}


def _run(data: bytes, arena: Arena) -> None:
    folder = lay(arena, "run", {"run.json": data})
    try:
        find_saved(folder)
    except RunError:
        pass
    with RunDirectory.open(folder, "resume", Config()) as run:
        assert run.checkpoints.resolve().is_relative_to(folder.resolve())
        assert run.finished_step is None or run.finished_step >= 0


def _hub_config(data: bytes, arena: Arena) -> None:
    files = MADE["hub"] | {"config.json": data}
    load_weights(Transformer(**SMALL), str(lay(arena, "hub", files)))


def _hub_index(data: bytes, arena: Arena) -> None:
    files = MADE["hub"] | {"model.safetensors.index.json": data}
    files["part-1.safetensors"] = files.pop("model.safetensors")
    load_weights(Transformer(**SMALL), str(lay(arena, "hub", files)))


INDEX = {
    "metadata": {"total_size": 9},
    "weight_map": {
        "model.norm.weight": "part-1.safetensors",
        "x": "part-1.safetensors",
    },
}


def _values(random: Random) -> bytes:
    value = json.loads(MADE["checkpoint"]["state.json"])
    return change_json(random, value, lambda v: to_json(v).encode())


TARGETS = (
    Target(
        name="tensors",
        make=lambda random: change_header(random, MADE["lane"]["delta"]),
        parse=_tensors,
        errors=(Damaged,),
        line=False,
    ),
    Target(
        name="delta",
        make=lambda random: change_header(random, MADE["lane"]["delta"]),
        parse=_delta,
        errors=(Damaged, Corrupt),
        line=False,
    ),
    Target(
        name="global model",
        make=lambda random: change_header(random, MADE["lane"]["model.safetensors"]),
        parse=_global,
        errors=(Damaged,),
        line=False,
    ),
    Target(
        name="manifest of a checkpoint",
        make=lambda random: change_json(random, MANIFEST, _seal_checkpoint, NAMES),
        parse=_checkpoint,
        errors=(CheckpointError,),
        line=False,
    ),
    Target(
        name="values of a checkpoint",
        make=_values,
        parse=_file_of_checkpoint("state.json"),
        errors=(CheckpointError,),
        line=False,
    ),
    Target(
        name="tensors of a checkpoint",
        make=lambda random: change_header(
            random, MADE["checkpoint"]["state.safetensors"]
        ),
        parse=_file_of_checkpoint("state.safetensors"),
        errors=(CheckpointError,),
        line=False,
    ),
    Target(
        name="checkpoint on a lane",
        make=lambda random: change_json(random, MANIFEST, _seal_checkpoint, NAMES),
        parse=_restore,
        errors=(RunError, LaneError, CheckpointError),
        line=False,
    ),
    Target(
        name="record of a run",
        make=as_json(RUN),
        parse=_run,
        errors=(RunError, ConfigError),
        line=False,
    ),
    Target(
        name="config.json beside weights",
        make=as_json(json.loads(MADE["hub"]["config.json"])),
        parse=_hub_config,
        errors=(ModelError, ConfigError),
        line=False,
    ),
    Target(
        name="index of weights",
        make=as_json(INDEX, more=NAMES),
        parse=_hub_index,
        errors=(ModelError, ConfigError),
        line=False,
    ),
)
