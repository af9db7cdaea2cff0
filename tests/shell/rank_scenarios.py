"""What the ranks of one node do in a row of trainings; run by torchrun.

Argument: a folder. Each rank writes what it saw to ``RANK.json`` there. The first
training is that of a node in a run of two; the last one ends with a killed rank. One
start of Python must do for all of them.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from speedtronic.__main__ import main
from speedtronic.errors import DataError, SpeedtronicError
from speedtronic.pure.strict_json import to_json
from speedtronic.pure.tree import named_leaves
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.rank_place import read_place
from speedtronic.shell.ranks import Ranks, Tag
from speedtronic.shell.stepper import Stepper
from speedtronic.shell.train import TrainResult, train

PLACE = read_place(os.environ)


class Digits(nn.Module):
    """Batch statistics, an integer buffer, and a metric of its own."""

    def __init__(self, vocab_size: int = 32, metric: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, vocab_size)
        self.metric = metric

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        """Logits, f32[B, T, V], and how large they are on some ranks."""
        x = self.norm(self.embedding(input_ids).transpose(1, 2)).transpose(1, 2)
        logits = self.head(x)
        told = {"logits": logits, "size": logits.detach().abs().mean()}
        return told if self.metric else {"logits": logits}


class Signalling(Digits):
    """On the second rank it sends its own process a signal in the third step."""

    def __init__(self, number: int, vocab_size: int = 32) -> None:
        super().__init__(vocab_size)
        self.number = number
        self.calls = 0  # two in each step

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        """As `Digits` does."""
        self.calls += 1
        if PLACE.rank == 1 and self.calls == 5:
            os.kill(os.getpid(), self.number)
        return super().forward(input_ids)


def uneven(vocab_size: int = 32) -> nn.Module:
    """A model that gives a metric on the first rank only."""
    return Digits(vocab_size, metric=PLACE.rank == 0)


def config(name: str, **sections: dict[str, Any]) -> dict[str, Any]:
    """A small run; a step is four micro-batches, two of each rank."""
    plain: dict[str, Any] = {
        "run": {"name": name, "max_steps": 5, "device": "cpu", "threads": 1},
        "model": {
            "n_layer": 1,
            "d_model": 16,
            "n_head": 2,
            "max_seq_len": 8,
            "vocab_size": 32,
            "dropout": 0.0,
        },
        "data": {
            "num_tokens": 500,
            "vocab_size": 32,
            "block_size": 8,
            "micro_batch_size": 2,
            "target_batch_size": 8,
            "shuffle": True,
        },
        "optimizer": {"lr": 0.01, "grad_clip": 1.0},
        "precision": {"mode": "fp32"},
        "evaluation": {"every_steps": 2},
        "checkpoint": {"every_steps": 2, "keep_last": None},
        "logging": {"progress": False},
    }
    for section, values in sections.items():
        own_model = section == "model" and "name" in values
        plain[section] = values if own_model else plain.get(section, {}) | values
    return plain


HERE = "tests.shell.rank_scenarios"
ONE_EACH = {"target_batch_size": 4}
DROPOUT = {"dropout": 0.3}
BUFFERS = {"name": f"{HERE}:Digits", "vocab_size": 32}
UNEVEN = {"name": f"{HERE}:uneven", "vocab_size": 32}
COMPILED = {"enabled": True, "backend": "eager"}


def digest(state: Any) -> str:
    """Of all that ranks must have alike: the whole state but for the key."""
    named = {n: x for n, x in named_leaves(state).items() if n != ".key"}
    whole = hashlib.sha256()
    for name in sorted(named):
        whole.update(name.encode() + named[name].numpy().tobytes())
    return whole.hexdigest()


def watched(seen: dict[str, Any], do: Callable[[int], None]) -> Callable[..., Any]:
    """`Stepper.step` that notes the state after each step, and does something."""
    real = Stepper.step

    def step(self: Stepper, *arguments: Any) -> Any:
        do(self.counters.position)
        info = real(self, *arguments)
        seen["states"].append(digest(self.state))
        seen["key"] = self.state.key.tolist()
        return info

    return step


def trained(
    plain: dict[str, Any],
    *,
    resume: str | None = None,
    do: Callable[[int], None] = lambda position: None,
) -> dict[str, Any]:
    """Train, and tell what this rank saw of it."""
    seen: dict[str, Any] = {"states": []}
    real, Stepper.step = Stepper.step, watched(seen, do)  # type: ignore[method-assign]
    try:
        seen["result"] = told(train(config_from_dict(plain), resume=resume))
    except SpeedtronicError as error:
        seen |= {
            "error": type(error).__name__,
            "text": str(error),
            "exit_code": error.exit_code,
        }
    finally:
        Stepper.step = real  # type: ignore[method-assign]
    return seen


def told(result: TrainResult) -> dict[str, Any]:
    """A result as JSON values."""
    names = ("steps", "samples", "tokens", "loss", "validation_loss", "exit_code")
    return {name: getattr(result, name) for name in names}


def at(rank: int, position: int, act: Callable[[], None]) -> Callable[[int], None]:
    """Act before one step of one rank."""

    def do(now: int) -> None:
        if (PLACE.rank, now) == (rank, position):
            act()

    return do


def fail() -> None:
    """What a rank's data may do."""
    raise DataError("sample 7 cannot be read")


def terminate() -> None:
    """What a launcher may do."""
    signal.raise_signal(signal.SIGTERM)


def silent_rank() -> dict[str, Any]:
    """The second rank is there but says nothing."""
    try:
        with Ranks(PLACE, torch.device("cpu"), timeout_s=2.0) as ranks:
            if PLACE.rank:
                ranks._store.wait(["over"], timedelta(seconds=60))
                return {}
            try:
                ranks.gather(Tag.ORDER)
            finally:
                ranks._store.set("over", "")
    except SpeedtronicError as error:
        return {"text": str(error), "exit_code": error.exit_code}
    return {}


def another_place() -> dict[str, Any]:
    """The ranks ask for different things."""
    try:
        with Ranks(PLACE, torch.device("cpu")) as ranks:
            ranks.gather(Tag.COUNTS if PLACE.rank else Tag.ORDER)
    except SpeedtronicError as error:
        return {"text": str(error)}
    return {}


def kinds_of_tensors() -> dict[str, Any]:
    """Whatever a state may hold arrives as it was sent."""
    sent: dict[str, Tensor] = {
        "b": torch.arange(6.0).reshape(2, 3).T,
        "a": torch.tensor([True, False]),
        "complex": torch.tensor([1 + 2j]),
        "half": torch.tensor(1.5, dtype=torch.bfloat16),
        "none": torch.empty(0),
        "number": torch.tensor(7),
    }
    own = sent
    if PLACE.rank:  # its dict was filled in another order
        own = {name: torch.zeros_like(sent[name]) for name in sorted(sent)}
    with Ranks(PLACE, torch.device("cpu")) as ranks:
        found = ranks.broadcast(own)
        last = ranks.broadcast(torch.tensor(PLACE.rank), source=PLACE.ranks - 1)
        plain = ranks.tell({"rank": PLACE.rank, "loss": float("nan")})
    same = [torch.equal(sent[name], found[name]) for name in sent]
    return {
        "same": all(same),
        "last": int(last),
        "rank": plain["rank"],
        "loss": repr(plain["loss"]),
    }


def in_a_run(name: str, lane: str, role: str) -> dict[str, Any]:
    """A node of a run of two, which takes part in every round."""
    return config(
        name,
        run={"max_steps": 6},
        distributed={
            "enabled": True,
            "role": role,
            "lane": lane,
            "node_id": name,
            "collaborators": ["b" if name == "a" else "a"],
            "inner_steps": 2,
            "quorum": 2,
            "grace": 0.0,
            "wait": 30.0,
            "poll_interval": 0.05,
            "reset_inner_optimizer": True,
        },
    )


def command(name: str, number: int) -> int:
    """The exit code of ``speedtronic train``, a rank of which gets a signal."""
    model = {
        "name": f"{HERE}:Signalling",
        "kwargs": {"number": number},
        "vocab_size": 32,
    }
    path = Path(f"{name}-{PLACE.rank}.json")
    path.write_text(to_json(config(name, model=model, run={"max_steps": 99})))
    return main(["train", "--config", str(path)])


def scenarios() -> dict[str, Any]:
    """All that end well."""
    return {
        "lane": trained(in_a_run("a", "dir:lane", "master")),
        "four": trained(config("four")),
        "one each": trained(config("one-each", data=ONE_EACH)),
        "dropout": trained(config("dropout", model=DROPOUT)),
        "first half": trained(config("cut", model=DROPOUT, run={"max_steps": 2})),
        "second half": trained(config("cut", model=DROPOUT), resume="auto"),
        "again": trained(config("cut", model=DROPOUT), resume="auto"),
        "buffers": trained(config("buffers", model=BUFFERS)),
        "compiled": trained(config("compiled", model=BUFFERS, compile=COMPILED)),
        "minutes": trained(config("minutes", run={"max_minutes": 0.002})),
        "terminated": trained(
            config("terminated", run={"max_steps": 99}, checkpoint={"every_steps": 98}),
            do=at(1, 2, terminate),
        ),
        "command": {"exit_code": command("told", signal.SIGTERM)},
        "failing": trained(config("failing"), do=at(1, 3, fail)),
        "first failing": trained(config("first-failing"), do=at(0, 1, fail)),
        "taken": trained(config("four")),
        "other seed": trained(config("seed", run={"seed": 1 + PLACE.rank})),
        "uneven": trained(config("uneven", model=UNEVEN)),
        "silent rank": silent_rank(),
        "another place": another_place(),
        "tensors": kinds_of_tensors(),
    }


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    Path(f"{PLACE.rank}.json").write_text(json.dumps(scenarios()))
    sys.exit(command("killed", signal.SIGKILL))
