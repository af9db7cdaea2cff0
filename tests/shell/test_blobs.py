"""Tensors in safetensors files: the same bits back, or a word about what is wrong."""

import hashlib
import json
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from speedtronic.errors import CheckpointError, Damaged
from speedtronic.pure import tensor_header
from speedtronic.shell import blobs
from speedtronic.shell.atomic import Digest

ALL_DTYPES = sorted(tensor_header.NAMES, key=str)


def bits(tensor: Tensor) -> bytes:
    return bytes(blobs.bytes_of(tensor))


def same(one: Tensor, other: Tensor) -> bool:
    told = (one.dtype, one.shape) == (other.dtype, other.shape)
    return told and bits(one) == bits(other)


def kinds() -> dict[str, Tensor]:
    """One tensor of each kind that is easily got wrong."""
    return {
        "step": torch.tensor(7),
        "flag": torch.tensor(True),
        "empty": torch.zeros(0, 3),
        "nan": torch.tensor([float("nan"), -0.0, float("inf")]),
        "half": torch.randn(3, generator=torch.Generator().manual_seed(0)).bfloat16(),
        "complex": torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj(),
        "negative": torch.tensor([1 + 2j], dtype=torch.complex64).conj().imag,
        "transposed": torch.arange(6.0).reshape(2, 3).t(),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "name with 'quotes' \u00e9 and \x01": torch.zeros(1, dtype=torch.int8),
    }


def raw(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> Any:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_every_kind_comes_back_as_it_was(tmp_path: Path) -> None:
    """Dtype, shape and bits are those that were written."""
    tensors = kinds()
    digest = blobs.write(tmp_path / "a", tensors)
    found = blobs.read(tmp_path / "a", digest)

    assert tensors.keys() == found.keys()
    assert [] == [name for name in tensors if not same(tensors[name], found[name])]


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    """All dtypes of the format, as a vector and as a number."""
    data = torch.arange(8 * 3, dtype=torch.uint8) % 2
    vector = data.view(dtype)
    tensors = {"vector": vector, "number": vector[0]}
    blobs.write(tmp_path / "a", tensors)
    found = blobs.read(tmp_path / "a")

    assert same(tensors["vector"], found["vector"])
    assert same(tensors["number"], found["number"])


def test_the_file_is_the_librarys_byte_for_byte(tmp_path: Path) -> None:
    """What the safetensors library writes for the same tensors is the same file."""
    tensors = {name: x.resolve_conj().contiguous() for name, x in kinds().items()}
    tensors["negative"] = tensors["negative"].resolve_neg()
    blobs.write(tmp_path / "a", tensors)

    expected = safetensors.torch.save(tensors, {"format": "pt"})
    assert expected == (tmp_path / "a").read_bytes()


def test_the_library_reads_the_file(tmp_path: Path) -> None:
    """Hub tools find the same tensors and the metadata."""
    tensors = kinds()
    blobs.write(tmp_path / "a", tensors, {"made": "here"})
    with safetensors.safe_open(tmp_path / "a", "pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}
        metadata = file.metadata()

    assert {"format": "pt", "made": "here"} == metadata
    assert [] == [name for name in tensors if not same(tensors[name], found[name])]


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    """The sum taken while writing is the sum of what is on the disk."""
    digest = blobs.write(tmp_path / "a", {"big": torch.arange(1_000_003)})
    data = (tmp_path / "a").read_bytes()

    assert Digest(hashlib.sha256(data).hexdigest(), len(data)) == digest


def test_the_same_tensors_give_the_same_file(tmp_path: Path) -> None:
    """The order of the names does not matter."""
    one = blobs.write(tmp_path / "a", {"x": torch.zeros(1), "y": torch.ones(1)})
    other = blobs.write(tmp_path / "b", {"y": torch.ones(1), "x": torch.zeros(1)})

    assert one == other


def test_no_tensors_at_all_are_a_file_too(tmp_path: Path) -> None:
    """An empty dict comes back empty."""
    digest = blobs.write(tmp_path / "a", {})

    assert {} == blobs.read(tmp_path / "a", digest)


def test_a_tied_tensor_is_stored_once_and_comes_back_tied(tmp_path: Path) -> None:
    """Two names of one tensor are one entry, and one storage after reading."""
    weight = torch.randn(100, 10)
    tensors = {"embedding": weight, "head": weight, "other": torch.zeros(1)}
    digest = blobs.write(tmp_path / "a", tensors)
    found = blobs.read(tmp_path / "a", digest)

    assert digest.size < 5000
    assert found["embedding"].data_ptr() == found["head"].data_ptr()
    assert same(weight, found["head"])


def test_views_that_differ_are_stored_apart(tmp_path: Path) -> None:
    """Shared memory alone does not make two tensors one."""
    whole = torch.arange(4.0)
    tensors = {"a": whole[:2], "b": whole[2:], "c": whole.reshape(2, 2), "d": whole}
    blobs.write(tmp_path / "a", tensors)
    found = blobs.read(tmp_path / "a")

    assert [] == [name for name in tensors if not same(tensors[name], found[name])]
    assert 4 == len({x.data_ptr() for x in found.values()})


@pytest.mark.parametrize(
    ("tensor", "told"),
    [
        (torch.zeros(1, dtype=torch.complex128), "'w' is complex128"),
        (torch.eye(2).to_sparse(), r"'w' is float32 \(torch.sparse_coo\)"),
    ],
)
def test_what_the_format_cannot_hold_is_refused_by_name(
    tmp_path: Path, tensor: Tensor, told: str
) -> None:
    """Nothing is cast or dropped in silence, and no file appears."""
    with pytest.raises(CheckpointError, match=f"a cannot hold: {told}"):
        blobs.write(tmp_path / "a", {"w": tensor, "fine": torch.zeros(1)})
    assert not (tmp_path / "a").exists()


def test_the_reserved_name_is_refused(tmp_path: Path) -> None:
    """A tensor cannot take the place of the metadata."""
    with pytest.raises(CheckpointError, match="the name '__metadata__' is reserved"):
        blobs.write(tmp_path / "a", {"__metadata__": torch.zeros(1)})


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    """The path is named."""
    with pytest.raises(Damaged, match="a cannot be read: No such file"):
        blobs.read(tmp_path / "a")


@pytest.mark.parametrize("size", [0, 4, 7, 8, 9, 200, -1])
def test_a_truncated_file_is_damage(tmp_path: Path, size: int) -> None:
    """Wherever it ends, with a digest and without."""
    digest = blobs.write(tmp_path / "a", {"w": torch.zeros(100)})
    data = (tmp_path / "a").read_bytes()[:size]
    (tmp_path / "a").write_bytes(data)

    for expected in (None, digest):
        with pytest.raises(Damaged, match="a is not a whole|a has"):
            blobs.read(tmp_path / "a", expected)


def test_a_flipped_bit_is_damage(tmp_path: Path) -> None:
    """Only the sum can tell; the structure is whole."""
    digest = blobs.write(tmp_path / "a", {"w": torch.zeros(100)})
    data = bytearray((tmp_path / "a").read_bytes())
    data[-1] ^= 1
    (tmp_path / "a").write_bytes(data)

    assert blobs.read(tmp_path / "a")
    with pytest.raises(Damaged, match="a has other bytes than were written"):
        blobs.read(tmp_path / "a", digest)


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 200_000_000) + b"{}",
        raw(b"nonsense"),
        raw(b"\xff\xfe"),
        raw([]),
        raw("text"),
        raw({"w": []}),
        raw({"w": {}}),
        raw({"w": entry("F33")}, bytes(4)),
        raw({"w": entry(shape=(-1,), offsets=(0, -4))}),
        raw({"w": entry(shape=(1.0,))}, bytes(4)),
        raw({"w": entry(shape=(True,))}, bytes(4)),
        raw({"w": entry(shape="1")}, bytes(4)),
        raw({"w": entry(shape=(2,))}, bytes(4)),
        raw({"w": entry(offsets=(0, 4, 8))}, bytes(4)),
        raw({"w": entry(offsets=(4, 8))}, bytes(8)),
        raw({"w": entry(), "v": entry(offsets=(0, 4))}, bytes(8)),
        raw({"w": entry()}, bytes(5)),
        raw({"w": entry(shape=(0, 2**62, 2**62), offsets=(0, 0))}),
        raw({"w": entry(shape=(0, 2**99), offsets=(0, 0))}),
        raw({"w": entry(), "__metadata__": {"tied": '{"v": "x"}'}}, bytes(4)),
        raw({"w": entry(), "__metadata__": {"tied": "[]"}}, bytes(4)),
        raw({"w": entry(), "__metadata__": []}, bytes(4)),
        raw(b"[" * 100_000),
        raw({"w": entry(shape=(0, 10**90), offsets=(0, 0))}),
        raw({"w": entry(shape=[1] * 65)}, bytes(4)),
        raw({"w": entry(shape=[10**50] * 100_000)}, bytes(4)),
        raw({"w": entry() | {"more": 1}}, bytes(4)),
        raw(b'{"w": {}, "w": ' + json.dumps(entry()).encode() + b"}", bytes(4)),
        raw(b'{"\\ud800": ' + json.dumps(entry()).encode() + b"}", bytes(4)),
        raw({"w": entry(), "__metadata__": {"a": 1}}, bytes(4)),
        raw({"w": entry(), "__metadata__": {"tied": '{"w": "w"}'}}, bytes(4)),
        raw({"w": entry(), "__metadata__": {"tied": '{"v": ["w"]}'}}, bytes(4)),
        raw({"w": entry("BOOL", offsets=(0, 1))}, b"\x02"),
        raw({str(i): entry(shape=[0], offsets=(0, 0)) for i in range(100_001)}),
    ],
)
def test_nonsense_is_damage_and_never_a_traceback(tmp_path: Path, data: bytes) -> None:
    """Whatever the bytes are, the answer is one typed error that names the file."""
    (tmp_path / "a").write_bytes(data)

    with pytest.raises(Damaged, match="/a is not a whole safetensors file: "):
        blobs.read(tmp_path / "a")


def test_a_header_is_not_read_beyond_the_limit(tmp_path: Path) -> None:
    """A file of 17 MiB that claims to be all header costs eight bytes of reading."""
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", tensor_header.MAX_HEADER + 1))
        file.truncate(tensor_header.MAX_HEADER + 100)
    tracemalloc.start()
    try:
        for read in (blobs.read, blobs.metadata, blobs.outline):
            with pytest.raises(Damaged, match="impossible length"):
                read(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    """A pipe would make the reader wait, a device never ends."""
    path = tmp_path / "a"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    for read in (blobs.read, blobs.metadata):
        with pytest.raises(Damaged, match="no regular file"):
            read(path)


def test_what_cannot_be_read_back_is_not_written(tmp_path: Path) -> None:
    """The limits of reading are those of writing."""
    many = dict.fromkeys(map(str, range(100_001)), torch.zeros(0))
    for tensors in (many, {"x" * tensor_header.MAX_HEADER: torch.zeros(1)}):
        with pytest.raises(CheckpointError, match="cannot hold"):
            blobs.write(tmp_path / "a", tensors)
    assert [] == list(tmp_path.iterdir())
