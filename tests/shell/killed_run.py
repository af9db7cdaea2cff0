"""A training that is killed at every step, beside one that is not; run as a script.

Arguments: a variant, the number of steps, an empty folder. Prints one JSON object: how
the processes ended, and what both runs saved and logged.

At each step there are two kills by SIGKILL: in the middle of saving it, at another
system call each time, so that the step is lost; and just after it was saved, while the
next one is being computed. Every process is a fork of this one, which computes nothing
itself. Compiled processes take seconds to start, so they are killed once a step, in the
middle of saving it: each of them does one step that was lost and one that is new.
"""

import importlib
import itertools
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from speedtronic.shell import checkpoint_writer
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.train import train

BITS = ("model.safetensors", "optimizer.safetensors", "state.safetensors")
CALLS = ("write", "fsync", "rename", "mkdir", "open")
EARLY = 20  # a save makes more calls than this before its checkpoint is in place


def config(name: str, variant: str, steps: int) -> dict[str, Any]:
    """Dropout, accumulation, shuffling over two epochs, prefetching and evaluation."""
    plain: dict[str, dict[str, Any]] = {
        "run": {"name": name, "max_steps": steps, "device": "cpu", "threads": 1},
        "model": {
            "n_layer": 1,
            "d_model": 16,
            "n_head": 2,
            "max_seq_len": 8,
            "vocab_size": 32,
            "dropout": 0.2,
        },
        "data": {
            "num_tokens": 500,
            "block_size": 8,
            "vocab_size": 32,
            "micro_batch_size": 2,
            "target_batch_size": 4,
            "shuffle": True,
            "prefetch_factor": 3,
        },
        "optimizer": {"lr": 0.01, "grad_clip": 1.0},
        "scheduler": {"warmup_steps": 3},
        "precision": {"mode": "fp32"},
        "evaluation": {"every_steps": 4},
        "checkpoint": {"every_steps": 1, "keep_last": None},
        "logging": {"progress": False},
    }
    for section, values in VARIANTS[variant].items():
        old = plain.get(section, {})
        plain[section] = values if "name" in values else old | values
    return plain


class DrawingModel(nn.Module):
    """Draws from every global generator, which user code may do."""

    def __init__(self, vocab_size: int = 32) -> None:
        super().__init__()
        self.inner = SmallModel(vocab_size)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Logits, f32[B, T, V]."""
        noise = random.random() + float(np.random.rand()) + torch.rand(())
        logits: Tensor = self.inner(input_ids) * noise
        return logits


class SmallModel(nn.Module):
    """Compiles fast; the gradient of its embedding is where threads race."""

    def __init__(self, vocab_size: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 8)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(8, vocab_size)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Logits, f32[B, T, V]."""
        logits: Tensor = self.head(self.dropout(self.embedding(input_ids)))
        return logits


VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "fp32": {},
    "bf16": {
        "precision": {"mode": "bf16"},
        "optimizer": {"name": "muon", "lr": 0.01, "cautious": True},
    },
    # The first steps overflow and are skipped; later the scale grows again.
    "fp16": {
        "precision": {"mode": "fp16", "initial_scale": 2.0**20, "growth_interval": 3}
    },
    "drawing": {
        "model": {"name": "tests.shell.killed_run:DrawingModel", "vocab_size": 32}
    },
    "compiled": {
        "run": {"threads": 2},
        "compile": {"enabled": True},
        "model": {"name": "tests.shell.killed_run:SmallModel", "vocab_size": 32},
    },
}


def in_child(body: Callable[[], object]) -> int:
    """Run ``body`` in a fork and return its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        random.seed(0)  # Python seeds it from the system at a fork
        try:
            body()
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(plain: dict[str, Any], step: int, call: int | None) -> None:
    """Train until ``step`` is saved; die in the ``call``-th system call, or after."""
    real = checkpoint_writer.save

    def save(folder: Path, snapshot: Any, **how: Any) -> Path:
        if snapshot.step == step and call is not None:
            die_at(call)
        path = real(folder, snapshot)
        if snapshot.step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return path

    checkpoint_writer.save = save  # type: ignore[attr-defined]
    train(config_from_dict(plain), resume="auto")


def die_at(number: int) -> None:
    """Die before a system call; half of what a write should write is written."""
    count, write = itertools.count(), os.write

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(count) >= number:
                if real is write:
                    write(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, dying(getattr(os, name)))


def saved(run: Path) -> dict[str, dict[str, str]]:
    """The sums of what decides the next step, by checkpoint."""
    told = {}
    for folder in sorted((run / "checkpoints").glob("step-*")):
        files = json.loads((folder / "manifest.json").read_text())["files"]
        told[folder.name] = {name: files[name]["sha256"] for name in BITS}
    return told


def logged(run: Path) -> list[Any]:
    """Step, loss, rate and norm of every step in the metrics file."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    names = ("step", "loss", "learning_rate", "gradient_norm", "tokens")
    return [
        [record[name] for name in names]
        for record in records
        if record["event"] == "train_step"
    ]


def main(variant: str, steps: int, folder: Path) -> dict[str, Any]:
    """Run both and tell."""
    os.chdir(folder)
    if variant == "compiled":
        importlib.import_module("torch._inductor.compile_fx")  # once, not in each fork
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool of workers
    whole = config("whole", variant, steps)
    codes = [in_child(lambda: train(config_from_dict(whole)))]
    cut = config("cut", variant, steps)
    for step in range(1, steps + 1):
        for call in (step % EARLY, *(() if variant == "compiled" else (None,))):
            codes.append(in_child(lambda s=step, c=call: killed(cut, s, c)))  # type: ignore[misc]
    codes.append(in_child(lambda: train(config_from_dict(cut), resume="auto")))
    runs = {name: Path("runs") / name for name in ("whole", "cut")}
    return {
        "codes": codes,
        "left": sorted(os.listdir("runs/cut/checkpoints")),
        "saved": {name: saved(run) for name, run in runs.items()},
        "logged": {name: logged(run) for name, run in runs.items()},
    }


if __name__ == "__main__":
    told = main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    sys.stdout.write(json.dumps(told))
