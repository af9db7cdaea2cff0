"""A training that meets other nodes between its steps."""

from pathlib import Path
from typing import Any

import pytest
import torch

from speedtronic.errors import ConfigError, RunError
from speedtronic.pure.config import Config
from speedtronic.shell import blobs
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.distributed.replay import replay
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.loop import Loop
from speedtronic.shell.train import train


def config(folder: Path, name: str, **sections: Any) -> Config:
    """A node of a tiny run that nobody else takes part in."""
    plain: dict[str, dict[str, Any]] = {
        "run": {
            "name": name,
            "output_dir": str(folder),
            "max_steps": 20,
            "device": "cpu",
        },
        "model": {
            "n_layer": 1,
            "d_model": 16,
            "n_head": 2,
            "max_seq_len": 8,
            "vocab_size": 32,
            "dropout": 0.1,
        },
        "data": {
            "num_tokens": 2000,
            "block_size": 8,
            "vocab_size": 32,
            "micro_batch_size": 2,
            "target_batch_size": 4,
            "shuffle": True,
        },
        "checkpoint": {"every_steps": 10},
        "distributed": {
            "enabled": True,
            "role": "master",
            "node_id": "a",
            "lane": f"dir:{folder / name}-lane",
            "inner_steps": 1000,
            "poll_interval": 0.02,
        },
    }
    for section, fields in sections.items():
        plain.setdefault(section, {}).update(fields)
    return config_from_dict(plain)


def weights(folder: Path, name: str, step: int = 20) -> dict[str, torch.Tensor]:
    """What a run has saved."""
    return blobs.read(
        folder / name / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
    )


class Died(BaseException):
    """Stands for a process that is gone."""


def test_a_node_that_dies_between_two_rounds_goes_on_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it trained since the base is in its checkpoint, with the base."""
    train(config(tmp_path, "whole"))
    real = Loop._advance

    def advance(self: Loop, first: bool) -> None:
        if self.counters.position == 13:
            raise Died
        real(self, first)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_advance", advance)
        with pytest.raises(Died):
            train(config(tmp_path, "broken"))
    told = train(config(tmp_path, "broken"), resume="auto")
    assert 20 == told.steps
    whole, broken = weights(tmp_path, "whole"), weights(tmp_path, "broken")
    assert whole.keys() == broken.keys()
    assert all(torch.equal(whole[name], broken[name]) for name in whole)


def test_a_run_that_stopped_can_start_again_in_the_same_process(
    tmp_path: Path,
) -> None:
    """Each end delivers what was trained; all of it counts, once."""
    for steps in (7, 15, 20):
        train(config(tmp_path, "run", run={"max_steps": steps}), resume="auto")
    replayed = replay(parse_lane(f"dir:{tmp_path / 'run-lane'}"))
    assert replayed.ok
    assert 20 == sum(report.steps for report in replayed.rounds)


def test_one_node_with_a_plain_step_is_a_run_alone(tmp_path: Path) -> None:
    """Its global model is its own one, to rounding, when it waits for each round."""
    section = {
        "inner_steps": 5,
        "outer_lr": 1.0,
        "outer_momentum": 0.0,
        "wait": 60.0,
        "grace": 0.0,
    }
    train(config(tmp_path, "rounds", distributed=section))
    train(config(tmp_path, "alone"))  # delivers nothing before its end
    lane = parse_lane(f"dir:{tmp_path / 'rounds-lane'}")
    assert 4 == replay(lane).rounds[-1].round
    one, other = weights(tmp_path, "rounds"), weights(tmp_path, "alone")
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-3, atol=1e-4)


def test_a_config_that_differs_from_the_run_s_is_refused(tmp_path: Path) -> None:
    """Before anything is trained or made, with each field."""
    train(config(tmp_path, "run"))
    lane = {"lane": f"dir:{tmp_path / 'run-lane'}", "role": "worker", "node_id": "b"}
    other = {"optimizer": {"lr": 0.5}, "run": {"seed": 9}, "distributed": lane}
    with pytest.raises(ConfigError) as caught:
        train(config(tmp_path, "other", **other))
    told = [line.partition(": the run has")[0] for line in caught.value.problems]
    paths = ["optimizer.lr", "run.seed"]
    assert [f"distributed.lane: {path}" for path in paths] == told
    assert not (tmp_path / "other").exists()


def test_a_lane_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    """Only a master makes a folder's lane."""
    with pytest.raises(RunError, match="distributed.lane"):
        train(config(tmp_path, "run", distributed={"role": "worker"}))
    assert not (tmp_path / "run-lane").exists()


def test_frozen_parameters_do_not_travel(tmp_path: Path) -> None:
    """Delta, global and momentum hold what is trained."""
    train(config(tmp_path, "run", model={"freeze": ["*wte*"], "tie_weights": False}))
    lane = parse_lane(f"dir:{tmp_path / 'run-lane'}")
    head = lane.head()
    assert head is not None
    for name in ("model.safetensors", "outer.safetensors"):
        lane.fetch(name, head, tmp_path / name)
        assert not [
            n for n in blobs.read(tmp_path / name) if "embed" in n or "wte" in n
        ]
