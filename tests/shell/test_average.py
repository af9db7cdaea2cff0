"""Averaged weights in place of the raw ones."""

from pathlib import Path

import pytest
import torch

from speedtronic.errors import RunError
from speedtronic.pure.inner import InnerState, init_inner
from speedtronic.pure.optim import adamw, averaged, lookahead, tail_average
from speedtronic.pure.random import key_from_seed
from speedtronic.pure.tree import evolve
from speedtronic.shell.average import averaged_state, load_averaged_model
from speedtronic.shell.checkpoint import Snapshot, save

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
