"""Averaged weights in place of the raw ones."""

import contextlib
import math
from pathlib import Path

import pytest
import torch

from speedtronic.errors import RunError
from speedtronic.pure.config import Config
from speedtronic.pure.inner import InnerState, init_inner
from speedtronic.pure.optim import adamw, averaged, lookahead, tail_average
from speedtronic.pure.random import key_from_seed
from speedtronic.pure.tree import evolve
from speedtronic.shell import checkpoint_manifest
from speedtronic.shell.average import averaged_state, load_averaged_model
from speedtronic.shell.checkpoint import Snapshot, load, save
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.data.prepare import silent
from speedtronic.shell.evaluate import Evaluation, evaluate_held_out
from speedtronic.shell.metrics import read_log
from speedtronic.shell.opening import open_session
from speedtronic.shell.summary import read_summary
from speedtronic.shell.train import TrainResult, train

CPU = torch.device("cpu")

PARAMS = {"w.weight": torch.ones(2, 3), "it's": torch.ones(2), 'a "b"': torch.ones(1)}


def with_average() -> InnerState:
    """A state whose average is twice its parameters."""
    optimizer = averaged(lookahead(adamw()), tail_average())
    state = init_inner(
        optimizer, PARAMS, key_from_seed(0), buffers={"n": torch.ones(1)}
    )
    double = {name: 2 * value for name, value in PARAMS.items()}
    return evolve(state, optimizer=evolve(state.optimizer, average=double))


def without_average() -> InnerState:
    return init_inner(adamw(), PARAMS, key_from_seed(0))


def saved(folder: Path, state: InnerState) -> Path:
    return save(folder, Snapshot(run_id="r", step=1, state=state))


def test_the_average_takes_the_place_of_the_parameters() -> None:
    """Everything else is the state's own."""
    state = with_average()
    found = averaged_state(state)

    assert found is not None
    assert found.params is state.optimizer.average
    assert found.buffers is state.buffers


def test_a_state_may_have_no_average() -> None:
    """Then there is nothing to evaluate beside it."""
    assert averaged_state(without_average()) is None


def test_a_checkpoint_gives_its_average(tmp_path: Path) -> None:
    """Under the names of the parameters, whatever these are; buffers are raw."""
    tensors, _ = load_averaged_model(saved(tmp_path, with_average()))

    assert {*PARAMS, "n"} == tensors.keys()
    assert all(torch.equal(2 * x, tensors[name]) for name, x in PARAMS.items())
    assert torch.equal(torch.ones(1), tensors["n"])


def test_an_average_in_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the state of a large optimizer is saved."""
    monkeypatch.setattr("speedtronic.shell.checkpoint._SHARD", 32)
    path = saved(tmp_path, with_average())
    assert 1 < len(list(path.glob("optimizer-*.safetensors")))

    tensors, _ = load_averaged_model(path)
    assert all(torch.equal(2 * x, tensors[name]) for name, x in PARAMS.items())


def test_a_checkpoint_may_have_no_average(tmp_path: Path) -> None:
    """The field that would keep one is named."""
    with pytest.raises(RunError, match="no averaged weights; .* optimizer.average"):
        load_averaged_model(saved(tmp_path, without_average()))


def test_a_run_evaluates_its_average_too(tmp_path: Path) -> None:
    """Beside the raw weights, on the same data, wherever losses are told."""
    result, config = trained(tmp_path)
    found = load(newest(result), first_state(config)).state
    average = averaged_state(found)
    assert average is not None
    with contextlib.ExitStack() as stack:
        data, session = open_session(stack, config, CPU, None, silent)
        expected = evaluate_held_out(session, data, evolve(found, optimizer=()))
        other = evaluate_held_out(session, data, evolve(average, optimizer=()))
    assert expected is not None and other is not None
    lines = read_log(result.run_directory / "metrics.jsonl")
    record = [line for line in lines if line["event"] == "train_step"][-1]
    told = read_summary(result.run_directory)["average_validation_loss"]

    assert other.loss != expected.loss
    assert expected.loss == result.validation_loss == record["validation_loss"]
    assert other.loss == result.average_validation_loss == told["last"][1]
    assert other.loss == record["average_validation_loss"]


def test_the_best_checkpoint_is_that_of_the_better_weights(tmp_path: Path) -> None:
    """It holds both, and either can be exported."""
    result, _ = trained(tmp_path)
    assert result.validation_loss is not None
    assert result.average_validation_loss is not None
    least = min(result.validation_loss, result.average_validation_loss)

    assert least == checkpoint_manifest.read(newest(result)).validation_loss


@pytest.mark.parametrize(
    "raw, average, best",
    [(2.0, None, 2.0), (2.0, 1.0, 1.0), (1.0, 2.0, 1.0), (2.0, math.nan, 2.0)],
)
def test_what_is_not_finite_is_not_the_best(
    raw: float, average: float | None, best: float
) -> None:
    """A loss of an average that overflowed does not hide the raw one."""
    found = Evaluation(loss=raw, targets=1, bits_per_byte=None, average_loss=average)

    assert best == found.best_loss


def trained(folder: Path) -> tuple[TrainResult, Config]:
    (folder / "text.txt").write_text("the quick brown fox jumps over a dog. " * 20)
    config = config_from_dict(
        {
            "run": {"name": "r", "max_steps": 4, "output_dir": str(folder)},
            "model": {"max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 8},
            "data": {"text_path": str(folder / "text.txt")},
            "optimizer": {"lr": 1e-2, "average": "ema", "average_decay": 0.5},
        }
    )
    return train(config), config


def newest(result: TrainResult) -> Path:
    return result.run_directory / "checkpoints" / "step-00000004"


def first_state(config: Config) -> InnerState:
    with contextlib.ExitStack() as stack:
        return open_session(stack, config, CPU, None, silent)[1].initial
