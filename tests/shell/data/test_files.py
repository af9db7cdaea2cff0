"""Files by path, glob or folder."""

import os
from pathlib import Path

import pytest

from speedtronic.errors import DataError
from speedtronic.shell.data.files import check_unchanged, find_files, kind_of, look


def touch(folder: Path, *names: str) -> None:
    """Make files with a byte each."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_a_path(tmp_path: Path) -> None:
    """A file is itself, also with a name that looks like a glob."""
    touch(tmp_path, "a[1].txt")

    assert [tmp_path / "a[1].txt"] == find_files(str(tmp_path / "a[1].txt"))


def test_a_glob_in_sorted_order(tmp_path: Path) -> None:
    """Matches are sorted; folders are not files; ** goes deep."""
    touch(tmp_path, "b.txt", "a.txt", "c.md", "d/e.txt")
    (tmp_path / "f.txt").mkdir()
    flat = find_files(str(tmp_path / "*.txt"))
    deep = find_files(str(tmp_path / "**/*.txt"))

    assert ["a.txt", "b.txt"] == [p.name for p in flat]
    assert ["a.txt", "b.txt", "e.txt"] == [p.name for p in deep]


def test_a_folder_without_its_hidden_files(tmp_path: Path) -> None:
    """All files below it, sorted by path, hidden ones and folders left out."""
    touch(tmp_path, "b.txt", "a/z.txt", ".c.txt", ".git/d.txt", "a/.e")

    assert [tmp_path / "a/z.txt", tmp_path / "b.txt"] == find_files(str(tmp_path))


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("none.txt", "does not exist"),
        ("*.txt", "no file matches"),
        ("empty", "holds no files"),
    ],
)
def test_nothing_is_named(tmp_path: Path, spec: str, told: str) -> None:
    """The message has what was asked for."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError) as caught:
        find_files(str(tmp_path / spec))

    assert told in str(caught.value)
    assert spec in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.txt", "text"),
        ("a", "text"),
        ("a.md.gz", "text"),
        ("a.JSONL", "jsonl"),
        ("a.ndjson.zst", "jsonl"),
        ("a.bin", "tokens"),
        ("a.bin.gz", "tokens"),
        ("a.safetensors", "tokens"),
    ],
)
def test_endings_tell_the_format(name: str, kind: str) -> None:
    """Packed files are told by what is packed."""
    assert kind == kind_of(Path(name))


def test_a_change_is_noticed(tmp_path: Path) -> None:
    """Another size or another time."""
    touch(tmp_path, "a")
    before = look(tmp_path / "a")
    check_unchanged([before])
    os.utime(tmp_path / "a", ns=(1, 1))
    with pytest.raises(DataError, match="a changed while it was read"):
        check_unchanged([before])


def test_a_link_to_nothing_is_told(tmp_path: Path) -> None:
    """It is not left out of its folder as if it had never been meant."""
    touch(tmp_path, "a.txt")
    (tmp_path / "b.txt").symlink_to("gone.txt")

    for spec in (tmp_path, tmp_path / "*.txt"):
        assert ["a.txt", "b.txt"] == [p.name for p in find_files(str(spec))]
    with pytest.raises(DataError, match="b.txt cannot be read: No such file"):
        look(tmp_path / "b.txt")
