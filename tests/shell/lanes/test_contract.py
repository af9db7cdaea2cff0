"""One contract for every lane; add a lane to `LANES` and it is held to it."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from speedtronic.errors import Conflict, Corrupt, Missing, StorageError
from speedtronic.shell.lanes.base import ANY, Copy, Lane
from speedtronic.shell.lanes.directory import DirectoryLane
from speedtronic.shell.lanes.faulty import faulty
from speedtronic.shell.lanes.memory import MemoryLane

Make = Callable[[pytest.FixtureRequest], Lane]


def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue("tmp_path")
    return path


LANES: dict[str, Make] = {
    "memory": lambda request: MemoryLane(),
    "directory": lambda request: DirectoryLane.create(folder(request) / "lane"),
    "faulty": lambda request: faulty(MemoryLane(), {}),
    "hub": lambda request: request.getfixturevalue("hub_lane")(),
}


@pytest.fixture(params=sorted(LANES))
def lane(request: pytest.FixtureRequest) -> Lane:
    """An empty lane of each kind."""
    return LANES[request.param](request)


def contents(lane: Lane, revision: str) -> dict[str, bytes]:
    return {name: lane.read(name, revision) for name in lane.names("", revision)}


def test_an_empty_lane_has_no_head(lane: Lane) -> None:
    """The head of a lane without commits is None."""
    assert lane.head() is None


def test_a_commit_is_read_back(lane: Lane) -> None:
    """What was added is there, byte for byte, also when it is empty."""
    blobs = {"a": b"", "b/c.json": bytes(range(256)) * 300}
    revision = lane.commit(blobs, parent=None)
    assert contents(lane, revision) == blobs
    assert lane.head() == revision


def test_names_tell_sizes_by_prefix_in_order(lane: Lane) -> None:
    """Listing is by prefix of the text, sorted, with sizes in bytes."""
    blobs = {"n/b": b"22", "n/a": b"1", "o": b"", "n2": b"333"}
    revision = lane.commit(blobs, parent=ANY)
    assert [("n/a", 1), ("n/b", 2)] == list(lane.names("n/", revision).items())
    assert ["n/a", "n/b", "n2", "o"] == list(lane.names("", revision))
    assert {} == lane.names("x", revision)


def test_revisions_do_not_change(lane: Lane) -> None:
    """A later commit leaves what an older revision holds."""
    first = lane.commit({"a": b"1", "b": b"2"}, parent=None)
    second = lane.commit({"a": b"3"}, ["b"], parent=first)
    assert contents(lane, first) == {"a": b"1", "b": b"2"}
    assert contents(lane, second) == {"a": b"3"}


def test_a_stale_parent_conflicts_and_changes_nothing(lane: Lane) -> None:
    """Compare-and-swap: the loser's adds and deletes both stay away."""
    first = lane.commit({"a": b"1"}, parent=None)
    second = lane.commit({"b": b"2"}, parent=first)
    with pytest.raises(Conflict):
        lane.commit({"c": b"3"}, ["a"], parent=first)
    assert lane.head() == second
    assert contents(lane, second) == {"a": b"1", "b": b"2"}


def test_the_empty_lane_is_a_parent(lane: Lane) -> None:
    """Two nodes that both start a run: one of them is told."""
    parent = lane.head()
    lane.commit({"run": b"mine"}, parent=parent)
    with pytest.raises(Conflict):
        lane.commit({"run": b"theirs"}, parent=parent)


def test_a_parent_that_never_was_conflicts(lane: Lane) -> None:
    """An unknown revision is not the head, on an empty lane either."""
    with pytest.raises(Conflict):
        lane.commit({"a": b"1"}, parent="1-0123456789ab")
    assert lane.head() is None


def test_without_a_parent_commits_stack(lane: Lane) -> None:
    """ANY goes on top of whatever is there."""
    lane.commit({"a": b"1"}, parent=ANY)
    revision = lane.commit({"b": b"2"}, parent=ANY)
    assert contents(lane, revision) == {"a": b"1", "b": b"2"}


def test_the_same_content_twice_is_two_revisions(lane: Lane) -> None:
    """A revision names a commit, not a content."""
    first = lane.commit({"a": b"1"}, parent=None)
    second = lane.commit({"a": b"1"}, parent=first)
    assert first != second
    with pytest.raises(Conflict):
        lane.commit({"a": b"1"}, parent=first)


def test_deleting_and_adding_again(lane: Lane) -> None:
    """A name may come back."""
    first = lane.commit({"a": b"1", "b": b""}, parent=None)
    second = lane.commit({}, ["a"], parent=first)
    assert list(lane.names("", second)) == ["b"]
    third = lane.commit({"a": b"2"}, parent=second)
    assert lane.read("a", third) == b"2"


def test_deleting_what_is_not_there_changes_nothing(lane: Lane) -> None:
    """A delete that names nothing refuses the whole commit."""
    first = lane.commit({"a": b"1"}, parent=None)
    with pytest.raises(Missing, match="'nothing'"):
        lane.commit({"b": b"2"}, ["nothing"], parent=first)
    assert lane.head() == first


def test_a_copy_takes_the_content_of_the_parent(lane: Lane) -> None:
    """A move is a copy and a delete in one commit."""
    first = lane.commit({"nodes/d": b"delta"}, parent=None)
    adds = {"rounds/1/d": Copy("nodes/d"), "manifest": b"{}"}
    second = lane.commit(adds, ["nodes/d"], parent=first)
    assert contents(lane, second) == {"rounds/1/d": b"delta", "manifest": b"{}"}
    with pytest.raises(Missing, match="'nodes/d'"):
        lane.commit({"x": Copy("nodes/d")}, parent=second)


def test_files_are_committed_and_fetched(lane: Lane, tmp_path: Path) -> None:
    """A file of more than one piece survives, and its sum is told."""
    source, target = tmp_path / "source", tmp_path / "target"
    content = bytes(range(251)) * 10_000
    source.write_bytes(content)
    target.write_bytes(b"old")
    revision = lane.commit({"big": source}, parent=None)
    total = lane.fetch("big", revision, target)
    assert hashlib.sha256(content).hexdigest() == total
    assert content == target.read_bytes() == lane.read("big", revision)
    assert {"source", "target"} == {p.name for p in tmp_path.iterdir() if p.is_file()}


def test_a_file_that_cannot_be_read_changes_nothing(lane: Lane, tmp_path: Path) -> None:
    """A missing source is told by its path, and nothing is written."""
    with pytest.raises(StorageError, match="nothing-here"):
        lane.commit({"a": b"1", "b": tmp_path / "nothing-here"}, parent=None)
    assert lane.head() is None


def test_fetching_nothing_leaves_the_target(lane: Lane, tmp_path: Path) -> None:
    """A failed fetch neither touches the file nor leaves another."""
    target = tmp_path / "folder" / "target"
    target.parent.mkdir()
    target.write_bytes(b"old")
    revision = lane.commit({"a": b"1"}, parent=None)
    with pytest.raises(Missing):
        lane.fetch("b", revision, target)
    assert [target] == list(target.parent.iterdir())
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize("revision", ["", "1", "1-" + "0" * 32, "../log", "9" * 40])
def test_unknown_revisions_are_missing(lane: Lane, revision: str) -> None:
    """No text that is not a revision reads anything."""
    lane.commit({"a": b"1"}, parent=None)
    with pytest.raises(Missing):
        lane.names("", revision)
    with pytest.raises(Missing):
        lane.read("a", revision)


@pytest.mark.parametrize("name", ["b", "../a", "/etc/passwd", ""])
def test_unknown_names_are_missing(lane: Lane, name: str) -> None:
    """Reading what is not there, whatever its name, is Missing."""
    revision = lane.commit({"a": b"1"}, parent=None)
    with pytest.raises(Missing):
        lane.read(name, revision)


@pytest.mark.parametrize("name", ["../a", "/a", "a//b", "a\\b", "con", "a\n", ".git/x"])
def test_names_outside_the_grammar_are_refused(lane: Lane, name: str) -> None:
    """Adds, copies and deletes are held to the grammar alike."""
    for adds, deletes in (({name: b"1"}, []), ({"x": Copy(name)}, []), ({}, [name])):
        with pytest.raises(ValueError, match="name"):
            lane.commit(adds, deletes, parent=ANY)
    assert lane.head() is None


@pytest.mark.parametrize("names", [("a", "A"), ("n/x", "N/y"), ("n", "n/x")])
def test_names_that_collide_are_denied(lane: Lane, names: tuple[str, str]) -> None:
    """Neither in one commit nor in two."""
    one, other = names
    with pytest.raises(Corrupt):
        lane.commit({one: b"1", other: b"2"}, parent=None)
    first = lane.commit({one: b"1"}, parent=None)
    with pytest.raises(Corrupt):
        lane.commit({other: b"2"}, parent=ANY)
    assert lane.head() == first
    lane.commit({other: b"2"}, [one], parent=first)


def test_a_commit_of_nothing_is_refused(lane: Lane) -> None:
    """A commit that would change nothing is the caller's mistake."""
    with pytest.raises(ValueError, match="nothing"):
        lane.commit({}, parent=None)


def test_text_is_no_blob(lane: Lane) -> None:
    """Bytes, paths and copies only; text would have an encoding."""
    with pytest.raises(TypeError, match="'a': expected bytes"):
        lane.commit({"a": "text"}, parent=None)  # type: ignore[dict-item]


def test_threads_lose_no_increment(lane: Lane) -> None:
    """A counter kept by compare-and-swap counts every increment once."""
    lane.commit({"count": b"0"}, parent=None)

    def increment() -> None:
        for _ in range(10):
            while True:
                head = lane.head()
                assert head is not None
                try:
                    count = int(lane.read("count", head))
                    lane.commit({"count": b"%d" % (count + 1)}, parent=head)
                except (Conflict, Missing):
                    continue
                break

    threads = [Thread(target=increment) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    head = lane.head()
    assert head is not None
    assert lane.read("count", head) == b"40"
