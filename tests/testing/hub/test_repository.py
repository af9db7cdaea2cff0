"""A repository by itself."""

from pathlib import Path

import pytest

from speedtronic.testing.hub.messages import Refused
from speedtronic.testing.hub.quota import Clock, Limits
from speedtronic.testing.hub.repository import Repository
from speedtronic.testing.hub.values import lfs_file, regular_file


def made(folder: Path | None = None, **limits) -> Repository:
    return Repository("me/run", folder, Limits(**limits), Clock().now)


def status(call, *arguments, **options) -> int:
    with pytest.raises(Refused) as raised:
        call(*arguments, **options)
    return raised.value.status


def test_a_commit_moves_the_head_from_its_parent_only() -> None:
    """Anything else is a 412 and changes nothing."""
    run = made()
    start = run.head
    first = run.commit("main", {}, parent=start, title="one").id

    assert 412 == status(run.commit, "main", {}, parent=start, title="two")
    assert first == run.head
    run.commit("main", {}, parent=first[:7].upper(), title="a shortened parent")


def test_ids_never_come_twice() -> None:
    """Not for the same files, nor after a squash."""
    run = made()
    ids = [run.head]
    for _ in range(3):
        ids += [run.write({"a": b"1"}), run.squash()]

    assert len(ids) == len(set(ids))


def test_a_branch_lags_behind_as_far_as_is_known() -> None:
    """Then it stays at the oldest."""
    run = made()
    ids = [run.head, *(run.write({"a": b"%d" % n}) for n in range(2))]

    assert ids[::-1] == [run.at("main", back).id for back in range(3)]
    assert ids[0] == run.at("main", 9).id
    assert ids[1] == run.at(ids[1], back=1).id


def test_a_squash_drops_what_only_old_commits_held(tmp_path) -> None:
    """From the disk too."""
    run = made(tmp_path)
    old = run.write({"a": b"old"})
    run.write({"a": b"new"})
    run.squash()

    assert 404 == status(run.read, "a", old)
    assert b"new" == run.read("a")
    assert 2 == len(list((tmp_path / "blobs").iterdir()))
    assert 1 == len(list((tmp_path / "commits").iterdir()))


def test_a_reader_in_the_middle_of_a_file_gets_its_end(tmp_path) -> None:
    """Its content stays as long as somebody looks at it."""
    run = made(tmp_path)
    view = run.content(run.at(run.write({"a": b"12345"})), "a")
    run.write({"a": b"new"})
    run.squash()

    assert b"12345" == bytes(view)


def test_a_large_file_must_be_there_before_its_commit() -> None:
    """And is not lost to a squash that comes between."""
    run = made()
    content = b"1234"
    sha256 = regular_file(content).sha256
    assert 400 == status(run.storage.large, sha256)
    run.storage.receive(sha256, [content[:2], content[2:]])
    run.squash()
    run.commit("main", {"w": run.storage.large(sha256)}, title="w")

    assert lfs_file(sha256, 4) == run.files()["w"]
    assert content == run.read("w")


def test_a_large_file_with_another_sum_is_refused() -> None:
    """As S3 does."""
    run = made()

    assert 400 == status(run.storage.receive, "0" * 64, [b"1"])
    assert 0 == run.storage.used


def test_a_large_file_that_comes_back_is_not_released() -> None:
    """A commit in time keeps it for good."""
    clock = Clock()
    run = Repository("me/run", None, Limits(squash_grace_s=10.0), clock.now)
    sha256 = regular_file(b"1234").sha256
    run.storage.receive(sha256, [b"1234"])
    run.commit("main", {"w": run.storage.large(sha256)}, title="w")
    run.write({"w": None})
    run.squash()
    clock.advance(5)
    run.commit("main", {"w": run.storage.large(sha256)}, title="w")
    clock.advance(50)

    assert (4, b"1234") == (run.storage.used, run.read("w"))


def test_what_a_killed_emulator_left_half_written_is_no_commit(tmp_path) -> None:
    """A commit counts once its branch points there."""
    run = made(tmp_path)
    head = run.write({"a": b"1"})
    (tmp_path / "commits" / "half.tmp").write_text("{")
    (tmp_path / "blobs" / "7-0.tmp").write_text("half")
    again = made(tmp_path)

    assert (head, b"1") == (again.head, again.read("a"))
    assert run.history == again.history
