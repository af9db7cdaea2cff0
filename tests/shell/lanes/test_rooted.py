"""Locks between processes, and writing that leaves nothing behind."""

import errno
import os
import re
from pathlib import Path

import pytest

from speedtronic.errors import Denied, LaneError, Unavailable
from speedtronic.shell.lanes import rooted
from speedtronic.shell.lanes.rooted import locked, opened, translated


def test_shared_locks_admit_each_other_and_no_exclusive_one(tmp_path: Path) -> None:
    """Commits run side by side; compaction alone."""
    (tmp_path / "lock").touch()
    with opened(tmp_path, ".") as [top]:
        with locked(top, "lock", alone=False, wait=True):
            with locked(top, "lock", alone=False, wait=False) as held:
                assert held
            with locked(top, "lock", alone=True, wait=False) as held:
                assert not held
        with locked(top, "lock", alone=True, wait=False) as held:
            assert held


def test_a_lock_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped while it held the lock stops nobody else."""
    slept: list[float] = []
    monkeypatch.setattr(rooted.time, "sleep", slept.append)
    (tmp_path / "lock").touch()
    with opened(tmp_path, ".") as [top], locked(top, "lock", alone=True, wait=True):
        with pytest.raises(Unavailable, match="'lock' stayed taken"):
            with locked(top, "lock", alone=False, wait=True):
                pass
    assert 9 < sum(slept) < 11


def test_a_released_lock_is_not_kept_by_a_forked_child(tmp_path: Path) -> None:
    """A data worker that was forked during a commit does not hold it on."""
    (tmp_path / "lock").touch()
    with opened(tmp_path, ".") as [top]:
        with locked(top, "lock", alone=False, wait=True):
            [held_by] = [
                number
                for number in map(int, os.listdir("/dev/fd"))
                if _is(number, tmp_path / "lock")
            ]
            copy = os.dup(held_by)  # what a fork does to it
        with locked(top, "lock", alone=True, wait=False) as held:
            assert held
    os.close(copy)


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.EACCES, Denied),
        (errno.EROFS, Denied),
        (errno.ELOOP, Denied),
        (errno.ENOTSUP, Denied),
        (errno.ENOSPC, Unavailable),
        (errno.EDQUOT, Unavailable),
        (errno.EIO, Unavailable),
        (errno.ENOENT, Unavailable),
        (errno.ESTALE, Unavailable),
    ],
)
def test_what_the_system_reports_is_typed(code: int, error: type[LaneError]) -> None:
    """Denied where only a person can help, Unavailable where waiting may."""
    with pytest.raises(error, match=f"here: .*{re.escape(os.strerror(code))}"):
        with translated("here"):
            raise OSError(code, os.strerror(code))


def test_a_broken_write_leaves_no_file(tmp_path: Path) -> None:
    """Whatever breaks while the content is made."""

    def broken() -> object:
        yield b"half"
        raise RuntimeError

    with opened(tmp_path, ".") as [top], pytest.raises(RuntimeError):
        top.write("new", broken())  # type: ignore[arg-type]
    assert [] == list(tmp_path.iterdir())
