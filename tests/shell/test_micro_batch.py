"""``data.micro_batch_size: auto``."""

import json
import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config
from speedtronic.pure.tree import leaves
from speedtronic.shell import micro_batch
from speedtronic.shell.checkpoint import load_model
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.data import open_data
from speedtronic.shell.data.prepare import silent
from speedtronic.shell.metrics import read_log
from speedtronic.shell.micro_batch import most_by_trial, most_in_memory
from speedtronic.shell.opening import open_session
from speedtronic.shell.paths import token_folder
from speedtronic.shell.rank_place import Place
from speedtronic.shell.ranks import Tag
from speedtronic.shell.session import Session
from speedtronic.shell.train import TrainResult, train

CPU = torch.device("cpu")
SIZES = (1, 2, 3, 4, 6, 12)
MB = 1 << 20


def config_of(folder: Path, rows: int | str = "auto", **sections: Any) -> Config:
    (folder / "text.txt").write_text("the quick brown fox jumps over a dog. " * 40)
    raw: dict[str, Any] = {
        "run": {"name": f"r-{rows}", "max_steps": 4, "output_dir": str(folder)},
        "model": {
            "max_seq_len": 8,
            "n_layer": 1,
            "n_head": 2,
            "d_model": 8,
            "dropout": 0.3,
        },
        "data": {
            "text_path": str(folder / "text.txt"),
            "micro_batch_size": rows,
            "target_batch_size": 12,
            "shuffle": True,
        },
        "checkpoint": {"every_steps": 2},
    }
    return config_from_dict(raw | sections)


def bits(result: TrainResult, step: int = 4) -> dict[str, Tensor]:
    return load_model(result.run_directory / f"checkpoints/step-{step:08d}")[0]


def recorded(result: TrainResult) -> object:
    told = json.loads((result.run_directory / "run.json").read_text())
    return told["config"]["data"]["micro_batch_size"]


def room_for(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Let a step of more rows than so many not fit."""

    def most(allowed: tuple[int, ...], run: Callable[[int], None], *_: Any) -> int:
        fitting = [size for size in allowed if size <= rows]
        for size in fitting:
            run(size)
        return fitting[-1]

    monkeypatch.setattr(micro_batch, "most_in_memory", most)


def test_a_run_with_auto_is_the_run_with_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every bit of its weights and every number of its records; the number is kept."""
    room_for(monkeypatch, 4)
    found, given = (train(config_of(tmp_path, rows)) for rows in ("auto", 4))
    expected, actual = bits(given), bits(found)

    assert 4 == recorded(found) == recorded(given)
    assert all(torch.equal(x, actual[name]) for name, x in expected.items())
    losses = [
        [line["loss"] for line in read_log(r.run_directory / "metrics.jsonl")
         if line["event"] == "train_step"]
        for r in (found, given)
    ]  # fmt: skip
    assert losses[0] == losses[1]


def test_all_of_a_small_step_fits(tmp_path: Path) -> None:
    """With the memory that this machine has."""
    assert 12 == recorded(train(config_of(tmp_path)))


def test_a_resumed_run_keeps_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever would fit by now; with the bits of an unbroken run."""
    room_for(monkeypatch, 4)
    unbroken = train(config_of(tmp_path, run=run(tmp_path, "unbroken", 4)))
    train(config_of(tmp_path, run=run(tmp_path, "broken", 2)))
    room_for(monkeypatch, 12)
    resumed = train(config_of(tmp_path, run=run(tmp_path, "broken", 4)), resume="auto")

    assert 4 == recorded(resumed)
    expected, actual = bits(unbroken), bits(resumed)
    assert all(torch.equal(x, actual[name]) for name, x in expected.items())


def test_another_target_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the number of the run does not divide it."""
    room_for(monkeypatch, 4)
    train(config_of(tmp_path, run=run(tmp_path, "r", 2)))
    data = {
        "text_path": str(tmp_path / "text.txt"),
        "shuffle": True,
        "micro_batch_size": "auto",
        "target_batch_size": 9,
    }
    changed = config_of(tmp_path, run=run(tmp_path, "r", 4), data=data)

    assert 3 == recorded(train(changed, resume="auto"))


def run(folder: Path, name: str, steps: int) -> dict[str, Any]:
    return {"name": name, "max_steps": steps, "output_dir": str(folder)}


def test_looking_for_it_draws_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Global generators are as they were, whatever a model does with them."""
    (tmp_path / "drawing_model.py").write_text(DRAWING)
    monkeypatch.syspath_prepend(tmp_path)
    model = {"name": "drawing_model:build", "max_seq_len": 8}
    drawn = []
    for rows in (12, "auto"):
        given = config_of(tmp_path, rows, model=model)
        torch.manual_seed(5)
        random.seed(5)
        with ExitStack() as stack:
            open_session(stack, given, CPU, None, silent)
        drawn.append((torch.rand(3).tolist(), random.random()))

    assert drawn[0] == drawn[1]


def test_a_model_that_needs_two_rows_is_given_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch statistics of one row are refused by torch."""
    (tmp_path / "normed_model.py").write_text(NORMED)
    monkeypatch.syspath_prepend(tmp_path)
    config = config_of(
        tmp_path,
        model={"name": "normed_model:build"},
        data={
            "dataset": "normed_model:Rows",
            "micro_batch_size": "auto",
            "target_batch_size": 6,
        },
    )

    assert 6 == recorded(train(config))


def test_memory_that_runs_out_halves_the_micro_batch() -> None:
    """From the largest down; other errors are not for lack of memory."""
    tried: list[int] = []

    def run(size: int) -> None:
        tried.append(size)
        if size > 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate ...")

    def broken(size: int) -> None:
        raise RuntimeError("shapes do not fit")

    assert 4 == most_by_trial(SIZES, run)
    assert [12, 6, 4] == tried
    assert 2 == most_by_trial((2, 6), run)
    with pytest.raises(RuntimeError, match="do not fit"):
        most_by_trial(SIZES, broken)


@pytest.mark.parametrize(
    ("room_mb", "expected"),
    [(10_000, 12), (700, 4), (560, 4), (380, 3), (360, 2), (1, 1)],
)
def test_a_processor_is_never_filled(
    tmp_path: Path, room_mb: int, expected: int
) -> None:
    """A step of 100 MB a row takes at most 0.8 of what is there."""
    tried: list[int] = []
    with ExitStack() as stack:
        session = open_session(stack, config_of(tmp_path, 1), CPU, None, silent)[1]
    base = micro_batch.memory_bytes(CPU)

    found = most_in_memory(
        SIZES,
        tried.append,
        session,
        room=lambda: room_mb * MB,
        peak=lambda: base + 100 * MB * tried[-1] + MB,
    )

    assert expected == found == tried[-1]


def test_a_trial_leaves_the_first_state_alone(tmp_path: Path) -> None:
    """Nothing is donated, and nothing is kept."""
    session, example = opened(config_of(tmp_path, 2))
    before = [x.clone() for x in leaves(session.initial)]
    micro_batch._step(session, example, 12, 4)
    micro_batch._step(session, example, 12, 12)

    pairs = zip(before, leaves(session.initial), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def opened(config: Config) -> tuple[Session, Any]:
    with ExitStack() as stack:
        data, session = open_session(stack, config, CPU, None, silent)
        return session, data.train_batch(0).micro_batches[0]


class TwoRanks:
    """The other one can do with so many rows."""

    def __init__(self, other: int) -> None:
        self.place, self.other = Place(rank=0, ranks=2), other
        self.told: list[object] = []

    def agree(self, what: str, value: str) -> None:
        self.told.append((what, value))

    def tell(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields

    def gather(self, tag: Tag, *numbers: float) -> list[tuple[float, ...]]:
        return [numbers, (float(self.other),)]


@pytest.mark.parametrize(("kept", "expected"), [(None, 2), (6, 6), (4, 2)])
def test_ranks_take_the_least_of_theirs(
    tmp_path: Path, kept: int | None, expected: int
) -> None:
    """Each steps with half of 12 rows; the first rank knows what the run began with."""
    ranks: Any = TwoRanks(2)
    config = config_of(tmp_path)
    settled, notes = micro_batch.settle(config, CPU, ranks, opens(2), kept)

    assert expected == settled.data.micro_batch_size
    assert [f"data.micro_batch_size: auto is {expected}"] == [
        note.split(",")[0] for note in notes
    ]
    assert [("data.micro_batch_size", "auto")] == ranks.told


def test_ranks_must_be_able_to_share_a_step(tmp_path: Path) -> None:
    """Whatever a micro-batch is."""
    data = {"micro_batch_size": "auto", "target_batch_size": 9}
    ranks: Any = TwoRanks(1)
    with pytest.raises(ConfigError, match="a multiple of 2 ranks, found 9"):
        micro_batch.settle(config_of(tmp_path, data=data), CPU, ranks, opens(2), None)


def opens(ranks: int) -> Callable[[Config], Any]:
    return lambda config: open_data(config, directory=token_folder(config), ranks=ranks)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"micro_batch_size": "most"}, "micro_batch_size: expected auto or a number"),
        ({"micro_batch_size": 0}, "micro_batch_size: expected auto or a number above"),
        ({"micro_batch_size": 1.5}, "micro_batch_size: expected an integer or text"),
        (
            {"micro_batch_size": "auto", "target_batch_size": 10**9},
            "target_batch_size: expected at most 1000000 with data.micro_batch_size",
        ),
    ],
)
def test_nonsense_is_refused(data: dict[str, Any], told: str) -> None:
    """By the field."""
    with pytest.raises(ConfigError, match=told):
        config_from_dict({"data": data})


DRAWING = """
import random
import torch
from torch import nn

class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(256, 4), nn.Linear(4, 256)

    def forward(self, input_ids):
        random.random()
        x = self.embedding(input_ids)
        return {"logits": self.head(x + torch.rand(()))}

def build():
    return Drawing()
"""
NORMED = """
import torch
from torch import nn

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((4,), index / 24), torch.tensor(index % 2)

def build():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
"""
