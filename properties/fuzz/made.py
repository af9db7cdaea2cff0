"""Folders that are whole: what the attacks on files begin with."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from properties.fuzz.arena import Arena
from properties.fuzz.mutate import change_json
from properties.fuzz.round_targets import header_values

from speedtronic.pure.config import Config, Model
from speedtronic.pure.delta import Delta, Weights
from speedtronic.pure.outer import OuterRule, init_outer
from speedtronic.pure.round import header
from speedtronic.pure.transformer import Transformer
from speedtronic.pure.tree import state
from speedtronic.shell import checkpoint
from speedtronic.shell.checkpoint import Snapshot
from speedtronic.shell.data.documents import TextFiles
from speedtronic.shell.data.prepare import prepare_store
from speedtronic.shell.data.source import TextSource
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.tokenizers import ByteTokenizer
from speedtronic.shell.distributed.files import (
    write_delta,
    write_global,
)
from speedtronic.shell.export import export
from speedtronic.shell.rundir import RunDirectory

SMALL = {"vocab_size": 9, "max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 8}
PARAMS = {"w": torch.arange(6.0).reshape(2, 3), "v": torch.ones(6)}
BUFFERS = {"b": torch.tensor([True, False]), "n": torch.tensor(3)}


@state
class Part:
    """A state whose checkpoint has a file of the model and one beside it."""

    params: dict[str, torch.Tensor]
    step: torch.Tensor


STATE = Part(params={"w": torch.arange(6.0)}, step=torch.tensor(3))
LIKE = Part(params={"w": torch.zeros(6)}, step=torch.tensor(0))


def _made() -> dict[str, dict[str, bytes]]:
    """The files of folders that are whole, by folder and name."""
    delta = Delta(params=PARAMS, buffers=BUFFERS)
    weights = Weights(params=PARAMS, buffers=BUFFERS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lane").mkdir()
        write_delta(
            folder / "lane" / "delta", delta, header.from_plain(header_values())
        )
        write_global(folder / "lane", init_outer(weights, OuterRule()), {"w": "m.w"})
        snapshot = Snapshot(
            run_id="r",
            step=3,
            state=STATE,
            tensors={"extra": torch.ones(2)},
            hub_config={"model_type": "x"},
            validation_loss=1.5,
        )
        checkpoint.save(folder, snapshot)
        with RunDirectory.open(folder / "run", "new", Config()):
            pass
        config = Config(model=Model(**SMALL))
        module = Transformer(**SMALL)
        tensors = {k: v.detach() for k, v in module.state_dict().items()}
        export(tensors, config, ByteTokenizer(), folder / "hub")
        text = folder / "text.txt"
        text.write_bytes(b"some text of a few words\n" * 9)
        files = TextFiles([text], "text.txt", TextRules())
        prepared = prepare_store(TextSource(files, ByteTokenizer()), folder / "stores")
        return {
            "lane": files_of(folder / "lane"),
            "checkpoint": files_of(folder / "step-00000003"),
            "run": files_of(folder / "run"),
            "hub": files_of(folder / "hub"),
            "store": files_of(prepared.folder),
        }


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


MADE = _made()


def lay(arena: Arena, name: str, files: dict[str, bytes]) -> Path:
    """A folder with these files and no others."""
    folder = arena.root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return folder


def as_json(value: Any, **options: Any) -> Any:
    return lambda random: change_json(
        random, value, lambda v: json.dumps(v).encode(), **options
    )
