"""Deltas in files: read in pieces, judged without being loaded."""

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from speedtronic.errors import Damaged
from speedtronic.pure.delta import Delta, Weights, named, norm
from speedtronic.pure.reduction import ROW
from speedtronic.pure.tensor_header import label
from speedtronic.shell import blobs
from speedtronic.shell.delta_file import open_delta, spans

NAN = float("nan")


def written(path: Path, delta: Delta) -> Path:
    save_file(named(delta), path)
    return path


@pytest.mark.parametrize("size", [0, 1, ROW - 1, ROW, ROW + 1, 3 * ROW])
def test_spans_cover_every_element_once(size: int) -> None:
    """In order, without a gap, none longer than a row."""
    covered = [n for start, stop in spans(size) for n in range(start, stop)]
    assert list(range(size)) == covered
    assert all(0 < stop - start <= ROW for start, stop in spans(size))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool]
)
def test_pieces_are_what_was_written(tmp_path: Path, dtype: torch.dtype) -> None:
    """Whatever lies before it in the file, and of whatever width."""
    content = (torch.arange(2 * ROW + 3) % 7).to(dtype)
    others = {"a": torch.ones(3, dtype=torch.uint8), "z": torch.ones((), dtype=dtype)}
    delta = Delta(params={}, buffers={"b": content} | others)
    with open_delta(written(tmp_path / "delta", delta)) as file:
        for name, x in named(delta).items():
            read = [file.read(name, *span).clone() for span in file.spans(name)]
            assert torch.equal(x.reshape(-1), torch.cat(read))


def test_complex_elements_are_read_as_pairs(tmp_path: Path) -> None:
    """Real part, imaginary part, and so on."""
    delta = Delta(params={"w": torch.tensor([[1 + 2j, 3 + 4j]])}, buffers={})
    with open_delta(written(tmp_path / "delta", delta)) as file:
        assert [(0, 4)] == list(file.spans("params.w"))
        assert [2.0, 3.0] == file.read("params.w", 1, 3).tolist()


def test_the_outline_has_shapes_and_no_content(tmp_path: Path) -> None:
    """Enough to judge names, shapes and dtypes."""
    delta = Delta(params={"w": torch.ones(2, 3)}, buffers={"n": torch.tensor(4)})
    with open_delta(written(tmp_path / "delta", delta)) as file:
        outline = file.outline()
    assert outline.params["w"].is_meta
    assert (2, 3) == outline.params["w"].shape
    assert torch.int64 == outline.buffers["n"].dtype


def test_one_pass_finds_everything(tmp_path: Path) -> None:
    """Hash, size, fit, finiteness and norm; the norm has the bits of the definition."""
    generator = torch.Generator().manual_seed(0)
    delta = Delta(
        params={
            "w": torch.randn(ROW + 7, generator=generator),
            "c": torch.randn(5, 2, generator=generator, dtype=torch.complex64),
            "s": torch.tensor(3.0),
            "none": torch.zeros(0),
        },
        buffers={"n": torch.tensor(4), "b": torch.tensor([1e30])},
    )
    path = written(tmp_path / "delta", delta)
    with open_delta(path) as file:
        found = file.inspect(Weights(params=delta.params, buffers=delta.buffers))
    payload = b"".join(
        label(name, x.dtype, x.shape) + bytes(blobs.bytes_of(x))
        for name in blobs.order(named(delta))
        for x in [named(delta)[name]]
    )
    assert sum(x.nbytes for x in named(delta).values()) == found.payload_bytes
    assert hashlib.sha256(payload).hexdigest() == found.payload
    assert ((), True) == (found.mismatch, found.finite)
    assert norm(delta).item() == found.norm


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"w": torch.ones(3)}, ["params['w'] is float32[3], expected float32[2]"]),
        ({"v": torch.ones(2)}, ["params['v'] is unexpected", "params['w'] is missing"]),
    ],
)
def test_a_mismatch_is_told(
    tmp_path: Path, params: dict[str, Tensor], told: list[str]
) -> None:
    """By path, all of it."""
    base = Weights(params={"w": torch.zeros(2)}, buffers={})
    path = written(tmp_path / "delta", Delta(params=params, buffers={}))
    with open_delta(path) as file:
        assert told == list(file.inspect(base).mismatch)


@pytest.mark.parametrize("part", ["params", "buffers"])
@pytest.mark.parametrize("bad", [NAN, float("inf"), -float("inf")])
def test_one_bad_element_in_the_last_row_is_seen(
    tmp_path: Path, part: str, bad: float
) -> None:
    """Every row of parameters and buffers is looked at."""
    x = torch.full((ROW + 2,), 3e38)
    x[-1] = bad
    both = {"params": {"w": torch.ones(1)}, "buffers": {"b": torch.ones(1)}}
    both[part] = {"x": x}
    path = written(tmp_path / "delta", Delta(**both))
    with open_delta(path) as file:
        assert not file.inspect(Weights(**both)).finite


def test_a_file_of_other_names_is_no_delta(tmp_path: Path) -> None:
    """A model, say: told, not raised."""
    save_file({"w": torch.ones(2)}, tmp_path / "model")
    with open_delta(tmp_path / "model") as file:
        found = file.inspect(Weights(params={"w": torch.ones(2)}, buffers={}))
    assert "expected params.* or buffers.*" in found.mismatch[0]


def test_metadata_is_text_by_key(tmp_path: Path) -> None:
    """Where the header of a delta travels; none is none."""
    tensors = {"params.w": torch.ones(2)}
    save_file(tensors, tmp_path / "with", {"header": "{}"})
    save_file(tensors, tmp_path / "without")
    with open_delta(tmp_path / "with") as file:
        assert {"header": "{}"} == file.metadata
    with open_delta(tmp_path / "without") as file:
        assert {} == file.metadata


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_a_cut_file_is_damaged(tmp_path: Path, size: int) -> None:
    """At any length; so is one that is missing, or something else."""
    path = written(tmp_path / "delta", Delta(params={"w": torch.ones(99)}, buffers={}))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(Damaged, match="delta"), open_delta(path):
        pass


@pytest.mark.parametrize("content", [None, b"\x80\x04pickle", b"text" * 100])
def test_other_files_are_damaged(tmp_path: Path, content: bytes | None) -> None:
    """Nothing is unpickled."""
    path = tmp_path / "delta"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Damaged, match="delta"), open_delta(path):
        pass


def test_a_file_that_shrinks_while_it_is_read_is_damaged(tmp_path: Path) -> None:
    """An error of ours, not a signal that ends the process."""
    path = written(tmp_path / "delta", Delta(params={"w": torch.ones(99)}, buffers={}))
    with open_delta(path) as file:
        with path.open("r+b") as other:
            other.truncate(path.stat().st_size - 8)
        with pytest.raises(Damaged, match="before its tensors"):
            file.read("params.w", 0, 99)


def test_names_are_in_the_sum(tmp_path: Path) -> None:
    """Two tensors of one size cannot change places under the same sum."""
    params = {"v": torch.ones(2), "w": torch.zeros(2)}
    path = written(tmp_path / "delta", Delta(params=params, buffers={}))
    swapped = path.read_bytes().replace(b"params.v", b"params.x")
    swapped = swapped.replace(b"params.w", b"params.v").replace(
        b"params.x", b"params.w"
    )
    (tmp_path / "swapped").write_bytes(swapped)
    base = Weights(params=params, buffers={})
    found = []
    for each in (path, tmp_path / "swapped"):
        with open_delta(each) as file:
            found.append(file.inspect(base))
    assert found[0].mismatch == found[1].mismatch == ()
    assert found[0].payload != found[1].payload


def test_a_boolean_that_is_neither_is_damage(tmp_path: Path) -> None:
    """Torch computes with such a byte as the compiler likes."""
    delta = Delta(params={}, buffers={"b": torch.ones(3, dtype=torch.bool)})
    path = written(tmp_path / "delta", delta)
    path.write_bytes(path.read_bytes()[:-1] + b"\x02")
    with open_delta(path) as file, pytest.raises(Damaged, match="neither true"):
        file.inspect(Weights(params={}, buffers=delta.buffers))
