"""The files of a run on a lane."""

from pathlib import Path

import pytest
import torch

from speedtronic.errors import Corrupt, Damaged
from speedtronic.pure.delta import Delta, Weights
from speedtronic.pure.outer import OuterRule, OuterState, init_outer
from speedtronic.pure.round.header import Header
from speedtronic.pure.tree import named_leaves
from speedtronic.shell import blobs
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.files import (
    payload_of,
    read_global,
    read_header,
    read_renamed,
    read_weights,
    write_delta,
    write_global,
)


def delta() -> Delta:
    """With tensors of several dtypes, two of which share their storage."""
    shared = torch.tensor([3, 4])
    return Delta(
        params={"w": torch.randn(5, 7), "c": torch.randn(3, dtype=torch.complex64)},
        buffers={"n": shared, "m": shared, "mean": torch.ones(2, dtype=torch.bfloat16)},
    )


def header(of: Delta) -> Header:
    """Of a first delta."""
    payload = payload_of(of)
    return Header(
        run="0" * 16,
        lineage="0" * 64,
        node="a",
        stream="1" * 16,
        life="2" * 16,
        seq=1,
        after=None,
        base_round=0,
        base_id="5" * 64,
        cursor=0,
        inner_steps=9,
        tokens=100,
        codec="none",
        payload=payload.sha256,
        payload_bytes=payload.bytes,
    )


def state() -> OuterState:
    """A global model with momentum."""
    weights = Weights(params={"w": torch.randn(3, 2)}, buffers={"n": torch.tensor(4)})
    return init_outer(weights, OuterRule())


def test_the_announced_payload_is_what_a_reader_finds(tmp_path: Path) -> None:
    """Sum and size, over the tensors in the file's order."""
    told = header(sent := delta())
    write_delta(tmp_path / "d", sent, told)
    with open_delta(tmp_path / "d") as file:
        found = file.inspect(Weights(params=sent.params, buffers=sent.buffers))
        assert told == read_header(file)
    assert (told.payload, told.payload_bytes) == (found.payload, found.payload_bytes)
    assert () == found.mismatch


def test_a_delta_that_is_not_finite_is_announced_as_such() -> None:
    """Its writer must not send it."""
    bad = Delta(params={"w": torch.tensor([float("inf")])}, buffers={})
    assert not payload_of(bad).finite


def test_a_file_without_a_header_is_no_delta(tmp_path: Path) -> None:
    """Somebody may put any file there."""
    blobs.write(tmp_path / "d", {"params.w": torch.ones(1)})
    with open_delta(tmp_path / "d") as file, pytest.raises(Corrupt, match="header"):
        read_header(file)


def test_the_global_model_comes_back_under_its_own_names(tmp_path: Path) -> None:
    """Whatever it was called in the file."""
    written = state()
    files = write_global(tmp_path, written, {"w": "model.w"})
    found = read_global(*(tmp_path / file.name for file in files), round=0)
    assert {"model.w", "n"} == blobs.read(tmp_path / "model.safetensors").keys()
    pairs = zip(named_leaves(written).items(), named_leaves(found).items(), strict=True)
    for (path, x), (other, y) in pairs:
        assert path == other
        assert torch.equal(x, y)


def test_the_same_state_gives_the_same_sums(tmp_path: Path) -> None:
    """That is what a replay compares."""
    written = state()
    (tmp_path / "again").mkdir()
    once = write_global(tmp_path, written, {})
    assert once == write_global(tmp_path / "again", written, {})


def test_the_file_says_how_it_was_renamed(tmp_path: Path) -> None:
    """So that a reader can write the same file again."""
    write_global(tmp_path, state(), {"w": "model.w"})
    assert {"w": "model.w"} == read_renamed(tmp_path / "model.safetensors")


def test_two_tensors_of_one_name_are_refused(tmp_path: Path) -> None:
    """After renaming, too."""
    with pytest.raises(ValueError, match="two tensors of the name 'n'"):
        write_global(tmp_path, state(), {"w": "n"})


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ({}, "does not say which tensor is which"),
        ({"places": '{"x": "params.x"}'}, "does not say which"),
        ({"places": '{"w": "momentum.w"}'}, "does not say which"),
        ({"places": "[]"}, "does not say which"),
        ({"places": "{}"}, "without a place: w"),
    ],
    ids=["nothing", "unknown", "part", "list", "left over"],
)
def test_a_model_from_elsewhere_is_told(
    tmp_path: Path, places: dict[str, str], told: str
) -> None:
    """Other tools write such files, too."""
    blobs.write(tmp_path / "m", {"w": torch.ones(1)}, places)
    with pytest.raises(Damaged, match=told):
        read_weights(tmp_path / "m")
