"""The leader's own judgement of a model."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shell.distributed.small_run import plain

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config
from speedtronic.pure.delta import Weights
from speedtronic.pure.tree import tree_map
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.distributed.guard import Guard
from speedtronic.shell.distributed.status import status
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.train import train


def config(folder: Path, guard: float | None = 0.5, **data: Any) -> Config:
    """Of a node with a guard."""
    raw = plain(folder, f"dir:{folder / 'lane'}")
    raw["data"] |= {"validation_fraction": 0.2, **data}
    raw["distributed"] |= {"guard": guard, "guard_batches": 2}
    return config_from_dict(raw)


def first_weights(guard: Guard) -> Weights:
    """Of the model that it judges with."""
    initial = guard._session.initial
    return Weights(params=initial.params, buffers={})


def test_a_model_has_a_loss_and_keeps_its_weights(tmp_path: Path) -> None:
    """A new one knows nothing: the loss of 256 equally likely bytes, about."""
    guard = Guard(config(tmp_path))
    weights = first_weights(guard)
    before = tree_map(torch.clone, weights)
    loss = guard.loss(weights)
    assert abs(loss - math.log(256)) < 0.5
    assert loss == guard.loss(weights)
    for name, x in weights.params.items():
        assert torch.equal(before.params[name], x)
    guard.close()


def test_a_spoiled_model_has_none_that_could_pass(tmp_path: Path) -> None:
    """NaN is no number to compare with, and `rises` says so."""
    guard = Guard(config(tmp_path))
    weights = tree_map(lambda x: x * math.nan, first_weights(guard))
    assert math.isnan(guard.loss(weights))
    guard.close()


def test_a_guard_needs_held_out_data(tmp_path: Path) -> None:
    """It is said before anything is trained."""
    with pytest.raises(ConfigError, match="nothing is held out to judge a round by"):
        Guard(config(tmp_path, validation_fraction=0.0))


def test_a_run_with_a_guard_trains_as_one_without(tmp_path: Path) -> None:
    """It only looks, as long as nothing rises."""
    found = []
    for guard in (None, 10.0):
        folder = tmp_path / str(guard)
        folder.mkdir()
        own = config(folder, guard)
        train(own)
        run = status(parse_lane(f"dir:{folder / 'lane'}"))
        lane = parse_lane(f"dir:{folder / 'lane'}")
        weights = lane.read("model.safetensors", str(lane.head()))
        found.append((run.round, weights))
    assert found[0] == found[1]
    assert found[0][0] >= 1
