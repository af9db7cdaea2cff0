"""Files that hold token ids."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from speedtronic.errors import DataError
from speedtronic.shell.data import token_files
from speedtronic.shell.data.prepare import prepare_store
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.token_files import TokenFiles


def stored(
    path: Path, cache: Path, dtype: str = "uint16", mark: int | None = None
) -> Store:
    """The store made from a token file."""
    return prepare_store(TokenFiles([path], path.name, dtype, mark), cache)


def contents(store: Store) -> tuple[list[int], list[int]]:
    """Ids and where documents end."""
    ids = store.ids.windows(np.array([0]), store.about.tokens)[0].tolist()
    return ids, store.documents()[:, 0].tolist()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32", "int64"])
def test_raw_ids(tmp_path: Path, dtype: str) -> None:
    """A .bin file is one document of ids in the dtype that the config names."""
    path = tmp_path / "a.bin"
    np.array([1, 2, 200], dtype).tofile(path)

    assert ([1, 2, 200], [3]) == contents(stored(path, tmp_path / "cache", dtype))


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">u2", "<i8"])
def test_numpy_files(tmp_path: Path, dtype: str) -> None:
    """A .npy file says its dtype itself, in either byte order."""
    path = tmp_path / "a.npy"
    np.save(path, np.array([1, 2, 200], dtype))

    assert ([1, 2, 200], [3]) == contents(stored(path, tmp_path / "cache"))


def test_two_dimensions_are_documents(tmp_path: Path) -> None:
    """Each row is a document."""
    path = tmp_path / "a.npy"
    np.save(path, np.arange(6, dtype=np.uint16).reshape(3, 2))

    assert (list(range(6)), [2, 4, 6]) == contents(stored(path, tmp_path / "cache"))


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 100])
def test_chunks_do_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Documents end at rows and marks wherever a chunk ends."""
    monkeypatch.setattr(token_files, "CHUNK_TOKENS", chunk)
    path = tmp_path / "a.npy"
    np.save(path, np.array([[1, 2, 3, 4], [5, 0, 6, 7]], np.uint16))
    store = stored(path, tmp_path / "cache", mark=0)

    assert ([1, 2, 3, 4, 5, 0, 6, 7], [4, 6, 8]) == contents(store)


def test_a_mark_ends_a_document(tmp_path: Path) -> None:
    """Marks that are in the file divide it, and none is added."""
    path = tmp_path / "a.bin"
    np.array([1, 0, 2, 3, 0], np.uint16).tofile(path)
    store = stored(path, tmp_path / "cache", mark=0)

    assert ([1, 0, 2, 3, 0], [2, 5]) == contents(store)


@pytest.mark.parametrize("name", ["tokens", "input_ids", "anything"])
def test_safetensors(tmp_path: Path, name: str) -> None:
    """The tensor of that name, or the only one."""
    path = tmp_path / "a.safetensors"
    save_file({name: torch.tensor([3, 1, 2])}, path)

    assert ([3, 1, 2], [3]) == contents(stored(path, tmp_path / "cache"))


def test_several_files_are_one_stream(tmp_path: Path) -> None:
    """One after the other, each a document."""
    paths = [tmp_path / "a.bin", tmp_path / "b.bin"]
    for path in paths:
        np.array([7, 8], np.uint16).tofile(path)
    store = prepare_store(TokenFiles(paths, "two", "uint16", None), tmp_path / "cache")

    assert ([7, 8, 7, 8], [2, 4]) == contents(store)


def test_negative_ids(tmp_path: Path) -> None:
    """The id and its place are named."""
    path = tmp_path / "a.bin"
    np.array([1, 2, -5], np.int32).tofile(path)
    with pytest.raises(DataError, match="id -5 at token 2 is not an id"):
        stored(path, tmp_path / "cache", "int32")


def npy_start(version: int, length: int) -> bytes:
    """What stands before the header of an array's file."""
    size = length.to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size


def bad_files(folder: Path) -> dict[str, Path]:
    """Files that are not what their ending says."""
    (folder / "odd.bin").write_bytes(b"xyz")
    (folder / "text.npy").write_bytes(b"not numpy at all")
    np.save(folder / "float.npy", np.ones(3))
    np.save(folder / "objects.npy", np.array([None]), allow_pickle=True)
    np.save(folder / "deep.npy", np.ones((1, 1, 1), np.uint8))
    np.save(folder / "fortran.npy", np.asfortranarray(np.ones((2, 2), np.uint8)))
    (folder / "bad.safetensors").write_bytes(b"\xff" * 16)
    save_file({"tokens": torch.arange(9)}, folder / "cut.safetensors")
    save_file({"w": torch.ones(2)}, folder / "weights.safetensors")
    save_file(
        {"a": torch.tensor([1]), "b": torch.tensor([1])}, folder / "two.safetensors"
    )
    (folder / "empty.bin").write_bytes(b"")
    np.save(folder / "cut.npy", np.arange(9))
    for name in ("cut.npy", "cut.safetensors"):
        os.truncate(folder / name, (folder / name).stat().st_size - 5)
    for name, header in {
        "list": b"[]",
        "number": b'{"tokens":3}',
        "minus": b'{"tokens":{"dtype":"I64","shape":[-1],"data_offsets":[0,8]}}',
        "before": b'{"tokens":{"dtype":"I64","shape":[1],"data_offsets":[-99,0]}}',
        "nameless": b"{}",
    }.items():
        size = len(header).to_bytes(8, "little")
        (folder / f"{name}.safetensors").write_bytes(size + header + bytes(16))
    (folder / "none.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    deep = b"[" * 9000
    (folder / "deep.safetensors").write_bytes(len(deep).to_bytes(8, "little") + deep)
    plain = "{'descr': '<u2', 'fortran_order': False, 'shape': (1,), }"
    for name, text in {
        "code": "{'descr': f(), 'fortran_order': False, 'shape': (1,), }",
        "parens": "(" * 9000,
        "twice": plain.replace("(1,)", "(1,), 'shape': (2,)"),
        "structured": plain.replace("'<u2'", "[('a', '<u2')]"),
    }.items():
        (folder / f"{name}.npy").write_bytes(npy_start(1, len(text)) + text.encode())
    (folder / "long.npy").write_bytes(npy_start(2, 2**31))
    (folder / "version.npy").write_bytes(npy_start(9, 4))
    (folder / "packed.bin.GZ").write_bytes(b"")
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("odd.bin", "has 3 bytes, not a multiple of the 2 of data.token_dtype"),
        ("text.npy", "is not a .npy token file"),
        ("float.npy", "it holds float64, expected integers"),
        ("objects.npy", "it holds object, expected integers"),
        ("deep.npy", "it has 3 dimensions, expected 1 or 2"),
        ("fortran.npy", "it is in Fortran order"),
        ("bad.safetensors", "its header has an impossible length"),
        ("weights.safetensors", "'w' is F32, expected integers"),
        ("two.safetensors", "it holds a, b; expected one named tokens"),
        ("empty.bin", "is empty (0 tokens)"),
        ("cut.npy", "its header tells of 9 tokens, it ends before them"),
        ("cut.safetensors", "bytes of data, expected 72"),
        ("list.safetensors", "is not a .safetensors token file: "),
        ("number.safetensors", "is not a .safetensors token file: "),
        ("minus.safetensors", "is not a .safetensors token file: "),
        ("before.safetensors", "is not a .safetensors token file: "),
        ("nameless.safetensors", "it holds 16 bytes of data, expected 0"),
        ("none.safetensors", "it holds nothing; expected one named tokens"),
        ("deep.safetensors", "nested deeper than 3"),
        ("code.npy", "its header is not that of one plain array"),
        ("parens.npy", "its header is not that of one plain array"),
        ("twice.npy", "its header is not that of one plain array"),
        ("structured.npy", "its header is not that of one plain array"),
        ("long.npy", "its header is too long"),
        ("version.npy", "it does not begin as such a file does"),
        ("packed.bin.GZ", "is packed; token files are read in place, unpack it"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, told: str) -> None:
    """The file is named, with what is wrong with it."""
    path = bad_files(tmp_path)[name]
    with pytest.raises(DataError) as caught:
        TokenFiles([path], name, "uint16", None)

    assert told in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("gone", [50, 51])
def test_a_file_that_shrinks(tmp_path: Path, gone: int) -> None:
    """A file that is cut after it was opened is noticed when it is read."""
    path = tmp_path / "a.npy"
    np.save(path, np.arange(100, dtype=np.uint16))
    files = TokenFiles([path], "a", "uint16", None)
    os.truncate(path, path.stat().st_size - gone)
    with pytest.raises(DataError, match=f"a.npy ends at token {100 - (gone + 1) // 2}"):
        prepare_store(files, tmp_path / "cache")
