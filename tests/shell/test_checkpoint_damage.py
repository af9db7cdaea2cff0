"""Checkpoints that were cut, changed or made up."""

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.shell.samples import same_bits, snapshot, training
from tests.shell.test_checkpoint import FILES, names

from speedtronic.errors import CheckpointError, Damaged
from speedtronic.shell import checkpoint
from speedtronic.shell.checkpoint import (
    load,
    save,
    verify,
)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The checkpoint of step 10 of run 0."""
    return save(tmp_path, snapshot())


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever write fails, the message has step, path and reason."""
    save(tmp_path, snapshot(step=1))
    real, failed = os.write, 0
    for failing in range(1000):
        calls = iter(range(failing + 1))

        def write(descriptor: int, data: bytes, calls: Any = calls) -> int:
            if next(calls, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(descriptor, data)

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            try:
                save(tmp_path, snapshot(step=2))
                break
            except CheckpointError as error:
                failed += 1
                assert "step 2 was not saved" in str(error)
                assert "the disk is full" in str(error)
        assert ["step-00000001"] == names(tmp_path)
    assert failed > len(FILES)
    assert ["step-00000001", "step-00000002"] == names(tmp_path)


def _truncate(size: int) -> Any:
    def damage(path: Path, other: Path) -> None:
        os.truncate(path, size if size >= 0 else path.stat().st_size + size)

    return damage


def _delete(path: Path, other: Path) -> None:
    path.unlink()


def _flip(position: int) -> Any:
    def damage(path: Path, other: Path) -> None:
        data = bytearray(path.read_bytes())
        data[position] ^= 0x10
        path.write_bytes(data)

    return damage


def _swap(path: Path, other: Path) -> None:
    shutil.copyfile(other, path)


def _grow(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def _to_folder(path: Path, other: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = {
    "empty": _truncate(0),
    "4 bytes": _truncate(4),
    "200 bytes": _truncate(200),
    "a byte short": _truncate(-1),
    "deleted": _delete,
    "first byte": _flip(0),
    "20th byte": _flip(20),
    "last byte": _flip(-1),
    "of another run": _swap,
    "a byte long": _grow,
    "a folder": _to_folder,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_any_damage_is_noticed_and_named(
    tmp_path: Path, saved: Path, name: str, damage: Any
) -> None:
    """One file, one fault: loading and verifying both refuse and name the file."""
    (tmp_path / "other").mkdir()
    other = save(tmp_path / "other", snapshot(seed=1)) / name
    if (saved / name).stat().st_size <= 200 and damage is DAMAGES["200 bytes"]:
        os.truncate(saved / name, 100)
    damage(saved / name, other)

    for read in (verify, lambda p: load(p, training(0), run_id="run-0")):
        with pytest.raises(CheckpointError) as caught:
            read(saved)
        assert str(saved) in str(caught.value)
        # A manifest of another run is whole; the files are not what it lists.
        if not (name == "manifest.json" and damage is _swap):
            assert f"{saved / name} " in str(caught.value)
            assert isinstance(caught.value, Damaged)


def test_a_manifest_of_another_step_is_noticed(saved: Path) -> None:
    """A renamed folder does not become the checkpoint of another step."""
    moved = saved.rename(saved.with_name("step-00000099"))

    with pytest.raises(Damaged, match="is of step 10, not of step-00000099"):
        verify(moved)
    assert 10 == verify(moved.rename(saved.with_name("a copy"))).step


def test_a_file_that_the_manifest_does_not_list_is_no_harm(saved: Path) -> None:
    """File managers leave files behind; they are neither read nor executed."""
    (saved / ".DS_Store").write_bytes(b"x")
    (saved / "extra.pt").write_bytes(b"\x80\x04.")

    assert same_bits(snapshot().state, load(saved, training(0)).state)


def resealed(folder: Path, name: str, data: bytes) -> None:
    """Put another file into a checkpoint, with all sums right."""
    (folder / name).write_bytes(data)
    told = json.loads((folder / "manifest.json").read_text())
    told["files"][name] = {
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
    }
    told.pop("sha256")
    told["sha256"] = checkpoint.checkpoint_manifest._sum(told)
    (folder / "manifest.json").write_text(json.dumps(told) + "\n")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"values": {}, "reasons": 3, "versions": {}}',
        b'{"values": {}, "reasons": [3], "versions": {}}',
        b'{"values": [], "reasons": [], "versions": {}}',
        b'{"values": {}, "reasons": [], "versions": []}',
    ],
)
def test_values_that_were_made_up_are_damage(saved: Path, data: bytes) -> None:
    """Whoever writes the sums can write anything else, too."""
    resealed(saved, "state.json", data)
    with pytest.raises(Damaged, match="state.json"):
        load(saved, snapshot().state)


@pytest.mark.parametrize(
    "name",
    ["'a' + 'b'", "'a', 'b'", "'\\x'", "'\\q'", "'\\N{DIGIT ONE}'", "'\\U99999999'"],
)
def test_names_in_a_checkpoint_are_not_evaluated(saved: Path, name: str) -> None:
    """A name that only looks like a path of the state fits nothing."""
    header = {f"params[{name}]": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}}
    text = json.dumps(header).encode()
    resealed(
        saved,
        "state.safetensors",
        len(text).to_bytes(8, "little") + text + b"0",
    )
    with pytest.raises(CheckpointError, match="does not fit this run"):
        load(saved, snapshot().state)


def test_a_hostile_manifest_leads_nowhere(saved: Path) -> None:
    """A name with a folder in it is refused even if all sums are right."""
    told = json.loads((saved / "manifest.json").read_text())
    told["files"]["../x"] = told["files"].pop("extra.safetensors")
    told.pop("sha256")
    told["sha256"] = checkpoint.checkpoint_manifest._sum(told)
    (saved / "manifest.json").write_text(json.dumps(told) + "\n")

    with pytest.raises(Damaged, match="a file name leads elsewhere"):
        verify(saved)
