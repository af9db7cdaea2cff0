"""The manifest notices every byte, its own included."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speedtronic.errors import CheckpointError, Damaged
from speedtronic.pure.strict_json import to_json
from speedtronic.shell.atomic import Digest
from speedtronic.shell.checkpoint_manifest import (
    Manifest,
    _sum,
    check_file,
    encode,
    folder_name,
    read,
    read_text,
)

MANIFEST = Manifest(
    run_id="r",
    step=7,
    finite=True,
    validation_loss=0.5,
    files={"a.safetensors": Digest("00" * 32, 8)},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint folder with nothing in it but its manifest."""
    path = tmp_path / folder_name(7)
    path.mkdir()
    (path / "manifest.json").write_bytes(encode(MANIFEST))
    return path


def put(folder: Path, **changes: Any) -> None:
    """Write a manifest with other fields and a right sum."""
    told = json.loads(encode(MANIFEST)) | changes
    del told["sha256"]
    told["sha256"] = _sum(told)
    (folder / "manifest.json").write_text(to_json(told) + "\n")


def test_it_comes_back_as_it_was(folder: Path) -> None:
    """Every field."""
    assert MANIFEST == read(folder)


def test_every_flipped_bit_is_noticed(folder: Path) -> None:
    """Of all its bytes, white space included."""
    data = encode(MANIFEST)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        (folder / "manifest.json").write_bytes(changed)
        with pytest.raises(Damaged, match="manifest.json is not what was written"):
            read(folder)


def test_every_truncation_is_noticed(folder: Path) -> None:
    """Wherever it ends."""
    data = encode(MANIFEST)
    for size in range(len(data)):
        (folder / "manifest.json").write_bytes(data[:size])
        with pytest.raises(Damaged, match="manifest.json is not what was written"):
            read(folder)


def test_a_newer_schema_is_not_damage(folder: Path) -> None:
    """Another version's checkpoint is refused with that reason."""
    put(folder, schema=2)

    with pytest.raises(CheckpointError, match="is of schema 2, expected 1") as caught:
        read(folder)
    assert not isinstance(caught.value, Damaged)


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {"../a": {"sha256": "", "size": 0}}},
        {"files": {"/a": {"sha256": "", "size": 0}}},
        {"files": {".": {"sha256": "", "size": 0}}},
        {"files": {"": {"sha256": "", "size": 0}}},
        {"files": []},
        {"files": {"a": {}}},
        {"files": {"a": {"sha256": "../x", "size": 0}}},
        {"files": {"a": {"sha256": "0" * 64, "size": -1}}},
        {"files": {"a" * 300: {"sha256": "0" * 64, "size": 1}}},
        {"files": {"\u0661": {"sha256": "0" * 64, "size": 1}}},
        {"more": 1},
        {"finite": 1},
        {"run_id": ["r"]},
        {"run_id": "\x1b[2J"},
        {"step": 7.0},
        {"step": -7},
        {"step": float("inf")},
        {"validation_loss": float("nan")},
        {"step": "seven"},
        {"step": None},
        {"validation_loss": {}},
    ],
)
def test_nonsense_with_a_right_sum_is_damage(
    folder: Path, changes: dict[str, Any]
) -> None:
    """A typed error, never a traceback, and no path that leads elsewhere."""
    put(folder, **changes)

    with pytest.raises(Damaged, match="manifest.json is not what was written"):
        read(folder)


def test_deep_nesting_is_damage(folder: Path) -> None:
    """A parser's limits are not a crash."""
    (folder / "manifest.json").write_bytes(b'{"a":' * 100_000)

    with pytest.raises(Damaged):
        read(folder)


def test_a_manifest_that_never_ends(folder: Path) -> None:
    """A device in its place is not read, a pipe not waited for."""
    zero: Callable[[Path], None] = lambda path: path.symlink_to("/dev/zero")
    for make in (zero, os.mkfifo):
        (folder / "manifest.json").unlink()
        make(folder / "manifest.json")
        with pytest.raises(Damaged, match="no regular file"):
            read(folder)
        with pytest.raises(Damaged, match="no regular file"):
            check_file(folder / "manifest.json", Digest("00" * 32, 8))


def test_a_huge_manifest_is_not_read(folder: Path) -> None:
    """No more of it than the limit."""
    os.truncate(folder / "manifest.json", 1 << 40)
    with pytest.raises(Damaged, match="more than 16777216 bytes"):
        read(folder)


def test_files_are_compared_whole(tmp_path: Path) -> None:
    """Missing, longer, shorter and other bytes are told apart."""
    path = tmp_path / "a"
    digest = Digest(
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", 5
    )
    for data, told in ((b"hell", "4 bytes"), (b"hellp", "other"), (b"hello!", "6 byt")):
        path.write_bytes(data)
        with pytest.raises(Damaged, match=told):
            check_file(path, digest)
        with pytest.raises(Damaged, match=told):
            read_text(path, digest)
    path.write_bytes(b"hello")
    check_file(path, digest)
    assert b"hello" == read_text(path, digest)
    path.unlink()
    with pytest.raises(Damaged, match="cannot be read: No such file"):
        check_file(path, digest)
