"""Atomic writes: whole or not there, and the reason when not there."""

import errno
import hashlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from speedtronic.errors import Damaged, StorageError
from speedtronic.shell import atomic
from speedtronic.shell.atomic import (
    Digest,
    create,
    make_writable,
    new_folder,
    remove_folder,
    sweep,
    write_bytes,
)

HELLO = Digest("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", 5)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def without_permission(folder: Path) -> Iterator[None]:
    """Take the right to write into ``folder`` away, from root as well."""
    folder.chmod(0o500)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o700)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_write_replaces_what_was_there(tmp_path: Path) -> None:
    """The name holds the new bytes, the digest is theirs, and nothing else is left."""
    (tmp_path / "a").write_bytes(b"old and longer")

    assert HELLO == write_bytes(tmp_path / "a", b"hello")
    assert b"hello" == (tmp_path / "a").read_bytes()
    assert ["a"] == names(tmp_path)


def test_a_new_file_is_hashed_as_it_is_written(tmp_path: Path) -> None:
    """Pieces add up to the digest of the whole."""
    with create(tmp_path / "a") as file:
        file.write(b"he")
        file.write(memoryview(b"llo"))

    assert HELLO == file.digest()


def test_a_steady_piece_is_hashed_behind_the_writing(tmp_path: Path) -> None:
    """Large and small, steady and not: the order of the calls is kept."""
    pieces = [bytes([i]) * size for i, size in enumerate((70_000, 3, 80_000, 90_000))]
    with create(tmp_path / "a") as file:
        for number, piece in enumerate(pieces):
            file.write(piece, steady=number != 2)

    whole = b"".join(pieces)
    assert whole == (tmp_path / "a").read_bytes()
    assert Digest(hashlib.sha256(whole).hexdigest(), len(whole)) == file.digest()


def test_a_piece_that_is_not_steady_may_change_after_the_call(tmp_path: Path) -> None:
    """A buffer can be filled again."""
    buffer = bytearray(100_000)
    whole = b""
    with create(tmp_path / "a") as file:
        for number in range(5):
            buffer[:] = bytes([number]) * len(buffer)
            whole += buffer
            file.write(memoryview(buffer))

    assert hashlib.sha256(whole).hexdigest() == file.digest().sha256


def test_an_error_of_an_early_sync_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells it once, to whoever syncs first."""

    real, calls = os.fsync, []

    def fail_once(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(atomic, "_SYNC_EVERY", 4)
    monkeypatch.setattr(os, "fsync", fail_once)

    with pytest.raises(StorageError, match="reports an input/output error"):
        write_bytes(tmp_path / "a", b"hello")
    assert [] == names(tmp_path)


def test_a_new_file_needs_a_free_name(tmp_path: Path) -> None:
    """`create` never writes over anything."""
    (tmp_path / "a").write_bytes(b"old")

    with pytest.raises(StorageError, match="a cannot be written: the name is taken"):
        with create(tmp_path / "a"):
            pass
    assert b"old" == (tmp_path / "a").read_bytes()


def test_short_writes_are_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may take fewer bytes than it is given."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:2]))

    assert HELLO == write_bytes(tmp_path / "a", b"hello")
    assert b"hello" == (tmp_path / "a").read_bytes()


def test_a_file_limit_leaves_the_old_file(tmp_path: Path) -> None:
    """A write that hits the limit says path and reason and leaves no temporary."""
    write_bytes(tmp_path / "a", b"old")

    with file_size_limit(1000), pytest.raises(StorageError, match=r"a cannot.*ulimit"):
        write_bytes(tmp_path / "a", bytes(2000))
    assert b"old" == (tmp_path / "a").read_bytes()
    assert ["a"] == names(tmp_path)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EROFS, "the file system is read-only"),
        (errno.ENXIO, "No such device or address"),
    ],
)
def test_a_failing_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    """The system's reason is told in words, and nothing is left behind."""

    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", refuse)

    with pytest.raises(StorageError, match=f"/a cannot be written: {reason}"):
        write_bytes(tmp_path / "a", b"hello")
    assert [] == names(tmp_path)


def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    """A folder that may not be written says so."""
    folder = tmp_path / "f"
    folder.mkdir()

    with without_permission(folder), pytest.raises(StorageError, match="no permission"):
        write_bytes(folder / "a", b"hello")


def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path) -> None:
    """A path through a file is told apart from a missing folder."""
    (tmp_path / "f").write_bytes(b"")

    with pytest.raises(StorageError, match="a file, not a folder"):
        write_bytes(tmp_path / "f" / "a", b"hello")
    with pytest.raises(StorageError, match="the folder does not exist"):
        write_bytes(tmp_path / "g" / "a", b"hello")


def test_make_writable_finds_out_before_anything_is_at_stake(tmp_path: Path) -> None:
    """It makes the folder with its parents, leaves nothing in it, or says why not."""
    make_writable(tmp_path / "a" / "b")

    assert [] == names(tmp_path / "a" / "b")
    with without_permission(tmp_path), pytest.raises(StorageError, match="permission"):
        make_writable(tmp_path)
    with file_size_limit(0), pytest.raises(StorageError, match="ulimit"):
        make_writable(tmp_path)
    assert ["a"] == names(tmp_path)


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    """Until the block ends the name is free; after it everything is there."""
    with new_folder(tmp_path / "f") as temporary:
        with create(temporary / "a") as file:
            file.write(b"hello")
        assert not (tmp_path / "f").exists()

    assert ["f"] == names(tmp_path)
    assert b"hello" == (tmp_path / "f" / "a").read_bytes()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_folder_that_fails_leaves_nothing(
    tmp_path: Path, error: BaseException
) -> None:
    """Neither a full disk nor Ctrl-C leaves half a folder."""
    with pytest.raises((StorageError, KeyboardInterrupt)):
        with new_folder(tmp_path / "f") as temporary:
            (temporary / "a").write_bytes(b"hello")
            raise error

    assert [] == names(tmp_path)


def test_a_folder_does_not_replace_another(tmp_path: Path) -> None:
    """A name that is taken is refused and what is there stays."""
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "old").write_bytes(b"")

    with pytest.raises(StorageError, match="the name is taken"):
        with new_folder(tmp_path / "f"):
            pass
    assert ["old"] == names(tmp_path / "f")
    assert ["f"] == names(tmp_path)


def test_a_removed_folder_is_gone(tmp_path: Path) -> None:
    """Nothing of it is left."""
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a").write_bytes(b"")
    remove_folder(tmp_path / "f")

    assert [] == names(tmp_path)


def test_a_removal_that_is_cut_off_is_finished_by_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a folder never stands under the folder's own name."""
    (tmp_path / "f").mkdir()

    def cut_off(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(atomic.shutil, "rmtree", cut_off)
        remove_folder(tmp_path / "f")
    assert not (tmp_path / "f").exists()
    assert 1 == len(sweep(tmp_path))
    assert [] == names(tmp_path)


def test_the_sweep_spares_the_living_and_strangers(tmp_path: Path) -> None:
    """What is being written stays, and so does all that only looks similar."""
    others = [".a.tmp", "a.0123abcd.tmp", ".a.0123abcd", ".a.0123ABCD.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".f.0123abcd.tmp").mkdir()
    (tmp_path / ".f.0123abcd.tmp" / "part").write_bytes(b"")
    (tmp_path / ".g.0123abcd.tmp").write_bytes(b"")

    with new_folder(tmp_path / "live") as temporary:
        assert [".f.0123abcd.tmp", ".g.0123abcd.tmp"] == sweep(tmp_path)
        assert sorted([*others, temporary.name]) == names(tmp_path)
    assert [] == sweep(tmp_path)
    assert [] == sweep(tmp_path / "missing")


def test_the_sweep_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    """SIGKILL leaves temporaries, and the system says that their owner is dead."""
    script = f"""
import os, signal
from pathlib import Path
from speedtronic.shell.atomic import new_folder
with new_folder(Path({str(tmp_path)!r}) / "f") as temporary:
    (temporary / "part").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script])

    assert -9 == done.returncode
    (left,) = names(tmp_path)
    assert left.endswith(".tmp")
    assert [left] == sweep(tmp_path)
    assert [] == names(tmp_path)


def test_a_name_swept_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment between making a temporary and locking it loses nothing."""
    real = atomic.fcntl.flock
    swept = []

    def sweep_first(descriptor: int, operation: int) -> None:
        if not swept:
            swept.append(True)
            swept.extend(sweep(tmp_path))
        real(descriptor, operation)

    monkeypatch.setattr(atomic.fcntl, "flock", sweep_first)
    write_bytes(tmp_path / "a", b"hello")

    assert 2 == len(swept)
    assert b"hello" == (tmp_path / "a").read_bytes()


def test_a_digest_tells_size_and_bytes_apart() -> None:
    """The message says which of the two differs."""
    HELLO.expect(Path("a"), HELLO)
    with pytest.raises(Damaged, match="a has 4 bytes, expected 5"):
        HELLO.expect(Path("a"), Digest(HELLO.sha256, 4))
    with pytest.raises(Damaged, match="a has other bytes"):
        HELLO.expect(Path("a"), Digest("00", 5))
