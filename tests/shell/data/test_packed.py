"""Files read through gzip or zstd."""

import gzip
import sys
from pathlib import Path

import pytest
import zstandard

from speedtronic.errors import DataError
from speedtronic.shell.data.packed import open_stream


def read(path: Path) -> bytes:
    """All of a stream."""
    with open_stream(path) as stream:
        return stream.read()


@pytest.mark.parametrize(
    ("name", "pack"),
    [("a", bytes), ("a.Gz", gzip.compress), ("a.ZST", zstandard.compress)],
)
def test_what_was_packed_comes_back(tmp_path: Path, name: str, pack: object) -> None:
    """Plain and packed, with lines and long stretches, empty too."""
    path = tmp_path / name
    for content in (b"", b"one\ntwo\r\n\nthree", bytes(3 * 2**20)):
        path.write_bytes(pack(content))  # type: ignore[operator]

        assert content == read(path)
    path.write_bytes(pack(b"one\ntwo"))  # type: ignore[operator]
    with open_stream(path) as stream:
        assert [b"one\n", b"two"] == list(stream)


def test_several_frames_are_one_stream(tmp_path: Path) -> None:
    """Files that were packed in turn and put together."""
    (tmp_path / "a.zst").write_bytes(
        zstandard.compress(b"x") + zstandard.compress(b"y")
    )
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x") + gzip.compress(b"y"))

    assert b"xy" == read(tmp_path / "a.zst") == read(tmp_path / "a.gz")


@pytest.mark.parametrize("size", range(1, 13))
def test_a_zstd_file_cut_anywhere(tmp_path: Path, size: int) -> None:
    """It never passes for a shorter whole."""
    (tmp_path / "a.zst").write_bytes(zstandard.compress(b"hello")[:size])
    with pytest.raises((EOFError, OSError)):
        read(tmp_path / "a.zst")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(DataError, match="none.gz cannot be read: No such file"):
        open_stream(tmp_path / "none.gz")


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra to install is named."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "a.zst").write_bytes(b"x")
    with pytest.raises(DataError, match=r"pip install 'speedtronic\[zstd\]'"):
        read(tmp_path / "a.zst")
