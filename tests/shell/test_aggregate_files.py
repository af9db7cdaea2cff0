"""The outer step over files: what it writes, and when it writes nothing."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from speedtronic.errors import Damaged
from speedtronic.pure.aggregate import mean, token_mean
from speedtronic.pure.delta import Delta, Weights, named
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule, OuterState, init_outer
from speedtronic.shell.aggregate_files import outer_step_from_files

RULE = OuterRule(learning_rate=0.5, momentum=0.5)


@pytest.fixture
def state() -> OuterState:
    return init_outer(weights(torch.tensor([10.0, 20.0])), RULE)


def weights(w: Tensor) -> Weights:
    return Weights(params={"w": w}, buffers={"n": torch.tensor(1)})


def written(path: Path, w: Tensor, **buffers: Tensor) -> Path:
    save_file(named(Delta(params={"w": w}, buffers=buffers)), path)
    return path


def origin(node: str, tokens: int = 1) -> Origin:
    return Origin(node, "s", 1, tokens=tokens)


def test_the_state_is_written_over(tmp_path: Path, state: OuterState) -> None:
    """Donated: the same memory holds the new numbers."""
    files = {
        origin("a"): written(tmp_path / "a", torch.tensor([1.0, 0.0])),
        origin("b"): written(tmp_path / "b", torch.tensor([3.0, 0.0])),
    }
    memory = state.weights.params["w"], state.momentum["w"]
    after, info = outer_step_from_files(state, files, mean(), RULE)
    assert memory[0] is after.weights.params["w"]
    assert memory[1] is after.momentum["w"]
    assert ([8.5, 20.0], [2.0, 0.0]) == (memory[0].tolist(), memory[1].tolist())
    assert (1, 2.0) == (after.round.item(), info.delta_norm.item())


def test_no_files_change_nothing(state: OuterState) -> None:
    """Not even the number of the round."""
    after, info = outer_step_from_files(state, {}, mean(), RULE)
    assert after is state
    assert 0.0 == info.delta_norm.item()


def test_buffers_that_nobody_sent_stay(tmp_path: Path, state: OuterState) -> None:
    """And those that somebody sent are taken."""
    first = {origin("a"): written(tmp_path / "a", torch.zeros(2))}
    state, _ = outer_step_from_files(state, first, mean(), RULE)
    assert 1 == state.weights.buffers["n"].item()
    path = written(tmp_path / "b", torch.zeros(2), n=torch.tensor(7))
    state, _ = outer_step_from_files(state, first | {origin("b"): path}, mean(), RULE)
    assert 7 == state.weights.buffers["n"].item()


@pytest.mark.parametrize(
    ("second", "error", "told"),
    [
        (torch.ones(3), ValueError, "node 'b'.*float32.3., expected float32.2."),
        (torch.ones(2).double(), ValueError, "node 'b'.*float64.2."),
        (None, Damaged, "b is not a whole safetensors file"),
    ],
)
def test_nothing_is_written_before_all_fit(
    tmp_path: Path,
    state: OuterState,
    second: Tensor | None,
    error: type[Exception],
    told: str,
) -> None:
    """The last file may be the bad one."""
    files = {
        origin("a"): written(tmp_path / "a", torch.ones(2)),
        origin("b"): tmp_path / "b",
    }
    (tmp_path / "b").write_bytes(b"")
    if second is not None:
        written(tmp_path / "b", second)
    with pytest.raises(error, match=told):
        outer_step_from_files(state, files, mean(), RULE)
    assert [10.0, 20.0] == state.weights.params["w"].tolist()
    assert [0.0, 0.0] == state.momentum["w"].tolist()


def test_a_delta_of_another_model_is_refused(tmp_path: Path) -> None:
    """All files agree with each other, but not with the state."""
    files = {origin("a"): written(tmp_path / "a", torch.ones(2))}
    state = init_outer(weights(torch.ones(5)), RULE)
    with pytest.raises(ValueError, match=r"float32\[2\], expected float32\[5\]"):
        outer_step_from_files(state, files, mean(), RULE)


def test_weights_are_checked(tmp_path: Path, state: OuterState) -> None:
    """As in memory."""
    files = {origin("a", tokens=0): written(tmp_path / "a", torch.ones(2))}
    with pytest.raises(ValueError, match="weights are 0"):
        outer_step_from_files(state, files, token_mean(), RULE)


def test_memory_in_another_order_is_refused(tmp_path: Path) -> None:
    """Rows of a file are row-major; writing them elsewhere would mix elements."""
    state = init_outer(weights(torch.ones(2, 3).T), RULE)
    files = {origin("a"): written(tmp_path / "a", torch.ones(3, 2))}
    with pytest.raises(ValueError, match="contiguous"):
        outer_step_from_files(state, files, mean(), RULE)
