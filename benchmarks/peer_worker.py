"""One way to train, as a process that takes steps when `peers.py` tells it to.

Runs in the environment of its way, and needs of this project only `peer_model.py`.
Commands come as lines on standard input: a number of steps, or nothing more. Answers
are lines of JSON on standard output; whatever the libraries print goes elsewhere.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import peer_model
import torch
from torch.utils.data import DataLoader

LEARNING_RATE, BETAS, CLIP, LOG_EVERY = 1e-3, (0.9, 0.95), 1.0, 10
MANY_STEPS = 1_000_000
Params = Callable[[], Iterable[torch.Tensor]]


class Turn:
    """Called before each step; waits there when it is another's turn."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._left = self._count = 0
        self._begun: tuple[float, float] | None = None

    def __call__(self, params: Params) -> None:
        """Go on, or tell how long the steps took and wait for the next command."""
        self._left -= 1
        if self._left > 0:
            return
        if self._begun is None:
            self._tell(ready=True)
        else:
            seconds, cpu_seconds = (
                (now - begun) / self._count
                for now, begun in zip(clocks(), self._begun, strict=True)
            )
            self._tell(seconds=seconds, cpu_seconds=cpu_seconds)
        command = sys.stdin.readline().strip()
        if not command:
            total = sum(float(p.detach().double().square().sum()) for p in params())
            self._tell(peak_kilobytes=peak_kilobytes(), norm=total**0.5)
            os._exit(0)  # the loops know no other end
        self._left = self._count = int(command)
        self._begun = clocks()

    def _tell(self, **answer: Any) -> None:
        print(json.dumps(answer), file=self._answers, flush=True)


def clocks() -> tuple[float, float]:
    """Seconds on the wall, and of this process on all cores."""
    return time.perf_counter(), time.process_time()


def peak_kilobytes() -> int:
    """The peak of this process's resident set."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(x for x in lines if x.startswith("VmHWM")).split()[1])


def loader(size: str) -> DataLoader[Any]:
    """The rows in their order."""
    rows = peer_model.SIZES[size]["rows"]
    return DataLoader(peer_model.Rows(size), batch_size=rows, drop_last=True)


def forever(batches: Iterable[Any], turn: Turn, params: Params) -> Iterator[Any]:
    """The batches again and again, a turn before each."""
    while True:
        for batch in batches:
            turn(params)
            yield batch


def autocast(options: argparse.Namespace) -> Any:
    """Of the plain loop."""
    return torch.autocast("cpu", torch.bfloat16, enabled=options.bf16)


def plain(options: argparse.Namespace, turn: Turn) -> None:
    """The loop that everybody writes, with what everybody knows to be fast."""
    model = peer_model.build(options.size)
    optimizer = torch.optim.AdamW(
        model.parameters(), LEARNING_RATE, BETAS, weight_decay=0.0, fused=True
    )
    step = torch.compile(model) if options.compiled else model
    batches = forever(loader(options.size), turn, model.parameters)
    for number, (ids, labels) in enumerate(batches):
        with autocast(options):
            loss = peer_model.mean_loss(step(ids)["logits"], labels)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if number % LOG_EVERY == 0:
            print(number, loss.item())


def fabric(options: argparse.Namespace, turn: Turn) -> None:
    """The same loop in the words of Lightning Fabric."""
    library = importlib.import_module("lightning_fabric")
    precision = "bf16-mixed" if options.bf16 else "32-true"
    runner = library.Fabric(accelerator="cpu", devices=1, precision=precision)
    inner = peer_model.build(options.size)
    step = torch.compile(inner) if options.compiled else inner
    optimizer = torch.optim.AdamW(
        inner.parameters(), LEARNING_RATE, BETAS, weight_decay=0.0, fused=True
    )
    model, optimizer = runner.setup(step, optimizer)
    prepared = runner.setup_dataloaders(loader(options.size))
    batches = forever(prepared, turn, inner.parameters)
    for number, (ids, labels) in enumerate(batches):
        loss = peer_model.mean_loss(model(ids)["logits"], labels)
        runner.backward(loss)
        runner.clip_gradients(model, optimizer, max_norm=CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if number % LOG_EVERY == 0:
            print(number, loss.item())


def accelerate(options: argparse.Namespace, turn: Turn) -> None:
    """The same loop in the words of Accelerate."""
    library = importlib.import_module("accelerate")
    precision = "bf16" if options.bf16 else "no"
    runner = library.Accelerator(cpu=True, mixed_precision=precision)
    inner = peer_model.build(options.size)
    step = torch.compile(inner) if options.compiled else inner
    optimizer = torch.optim.AdamW(
        inner.parameters(), LEARNING_RATE, BETAS, weight_decay=0.0, fused=True
    )
    model, optimizer, prepared = runner.prepare(step, optimizer, loader(options.size))
    batches = forever(prepared, turn, inner.parameters)
    for number, (ids, labels) in enumerate(batches):
        loss = peer_model.mean_loss(model(ids)["logits"], labels)
        runner.backward(loss)
        runner.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if number % LOG_EVERY == 0:
            print(number, loss.item())


def old(options: argparse.Namespace, turn: Turn) -> None:
    """Version 2.0's trainer, as it sets itself up for a CPU.

    But for the optimizer: its own construction leaves the hidden matrices of a model
    out of AdamW, so it is given one that has all parameters. On a CPU it chooses the
    kernel that is not fused. Batches are tuples, which spares it its dense mask.
    """
    configs = importlib.import_module("speedtronic.config")
    runtime = importlib.import_module("speedtronic.runtime")
    precision = importlib.import_module("speedtronic.precision")
    model, cpu = peer_model.build(options.size), torch.device("cpu")
    config = configs.SpeedtronicConfig.from_dict(
        {
            "run": {"max_steps": MANY_STEPS, "output_dir": options.folder},
            "optimizer": {"lr": LEARNING_RATE, "betas": BETAS, "grad_clip": CLIP},
            "scheduler": {"name": "constant", "warmup_steps": 0},
            "precision": {"mode": "bf16" if options.bf16 else "fp32"},
            "checkpoint": {"enabled": False},
            "logging": {"every_steps": LOG_EVERY},
            "compile": options.compiled,
        }
    )
    optimizer = torch.optim.AdamW(
        model.parameters(),
        LEARNING_RATE,
        BETAS,
        weight_decay=0.0,
        fused=precision.supports_fused_adamw(cpu) or None,
    )
    trainer = importlib.import_module("speedtronic.trainer").Trainer(
        model,
        optimizer,
        forever(loader(options.size), turn, model.parameters),
        device=cpu,
        config=config,
        scheduler=runtime.build_scheduler(optimizer, config),
        logger=runtime.build_logger(config),
        max_steps=MANY_STEPS,
    )
    trainer.fit()


def ours(options: argparse.Namespace, turn: Turn) -> None:
    """A run of this project, from a config."""
    import speedtronic
    from speedtronic.shell.config import config_from_dict
    from speedtronic.shell.stepper import Stepper

    read = Stepper.read

    def read_in_turn(stepper: Stepper) -> Any:
        turn(lambda: stepper.state.params.values())
        return read(stepper)

    Stepper.read = read_in_turn  # type: ignore[method-assign,assignment]
    rows = peer_model.SIZES[options.size]["rows"]
    config = config_from_dict(
        {
            "run": {"max_steps": MANY_STEPS, "output_dir": options.folder},
            "model": {"name": "peer_model:build", "kwargs": {"size": options.size}},
            "data": {
                "dataset": "peer_model:Rows",
                "kwargs": {"size": options.size},
                "micro_batch_size": rows,
                "target_batch_size": rows,
                "validation_fraction": 0,
            },
            "optimizer": {
                "lr": LEARNING_RATE,
                "betas": list(BETAS),
                "weight_decay": 0.0,
                "grad_clip": CLIP,
            },
            "scheduler": {"name": "constant", "warmup_steps": 0},
            "precision": {"mode": "bf16" if options.bf16 else "fp32"},
            "checkpoint": {"enabled": False},
            "logging": {"every_steps": LOG_EVERY, "progress": False},
            "compile": {"enabled": options.compiled},
        }
    )
    speedtronic.train(config)


WAYS = {f.__name__: f for f in (ours, old, plain, fabric, accelerate)}


def main() -> None:
    """Train until nothing more is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=list(WAYS))
    parser.add_argument("size", choices=list(peer_model.SIZES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    turn = Turn()
    with tempfile.TemporaryDirectory() as options.folder:
        WAYS[options.way](options, turn)


if __name__ == "__main__":
    main()
