"""The folder of contents: bounded, shared, and never trusted."""

import os
from pathlib import Path

import pytest

from speedtronic.errors import StorageError
from speedtronic.shell.lanes.hub.cache import Cache

BLOCK = 4096


def put(cache: Cache, key: str, content: bytes) -> None:
    path, file = cache.create()
    with file:
        file.write(content)
    cache.publish(path, key)


def get(cache: Cache, key: str) -> bytes | None:
    file = cache.open(key)
    if file is None:
        return None
    with file:
        return file.read()


def used_at(folder: Path, key: str, when: int) -> None:
    os.utime(folder / key, (when, when))


def test_what_is_published_is_there(tmp_path: Path) -> None:
    """For other processes too, which only share the folder."""
    put(Cache(tmp_path / "cache", BLOCK), "k", b"content")

    assert b"content" == get(Cache(tmp_path / "cache", BLOCK), "k")
    assert 0o700 == (tmp_path / "cache").stat().st_mode & 0o777


def test_an_empty_cache_makes_no_folder(tmp_path: Path) -> None:
    """Only what is put in does."""
    assert get(Cache(tmp_path / "cache", BLOCK), "k") is None
    assert not (tmp_path / "cache").exists()


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    """Reading counts as use; even a small file takes a block."""
    cache = Cache(tmp_path, 2 * BLOCK)
    put(cache, "a", b"a")
    put(cache, "b", b"b")
    used_at(tmp_path, "a", 1)
    used_at(tmp_path, "b", 2)
    get(cache, "a")
    put(cache, "c", b"c")

    assert (b"a", None, b"c") == (get(cache, "a"), get(cache, "b"), get(cache, "c"))


def test_leftovers_of_killed_processes_go_too(tmp_path: Path) -> None:
    """They are files like others, and older."""
    cache = Cache(tmp_path, BLOCK)
    path, file = cache.create()
    file.close()
    used_at(tmp_path, path.name, 1)
    put(cache, "a", b"a")

    assert ["a"] == [entry.name for entry in tmp_path.iterdir()]


def test_what_is_too_large_to_keep_can_still_be_read(tmp_path: Path) -> None:
    """By whoever has it open."""
    cache = Cache(tmp_path, BLOCK)
    path, file = cache.create()
    with file:
        file.write(b"x" * (BLOCK + 1))
        file.flush()
        cache.publish(path, "large")
        file.seek(0)

        assert get(cache, "large") is None
        assert b"x" * (BLOCK + 1) == file.read()


def test_a_file_that_others_removed_is_not_missed(tmp_path: Path) -> None:
    """Room was made while it was written."""
    cache = Cache(tmp_path, BLOCK)
    path, file = cache.create()
    with file:
        path.unlink()
        cache.publish(path, "k")

    assert get(cache, "k") is None


def test_what_is_dropped_is_gone(tmp_path: Path) -> None:
    """Also twice."""
    cache = Cache(tmp_path, BLOCK)
    put(cache, "k", b"wrong")
    cache.drop("k")
    cache.drop("k")

    assert get(cache, "k") is None


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """With the reason."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file/cache cannot be written"):
        Cache(tmp_path / "file" / "cache", BLOCK).create()
