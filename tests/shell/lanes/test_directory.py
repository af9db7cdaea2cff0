"""The lane in a folder: what a disk, a kill and other hands can do to it."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from speedtronic.errors import (
    Corrupt,
    Denied,
    Missing,
    StorageError,
    Unavailable,
)
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.directory import DirectoryLane


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lane"


@pytest.fixture
def lane(root: Path) -> DirectoryLane:
    return DirectoryLane.create(root, keep=2)


def files(root: Path) -> set[str]:
    return {
        str(p.relative_to(root))
        for p in root.rglob("*")
        if p.is_file() and p.parent != root
    }


def test_a_folder_without_a_lane_is_an_outage(root: Path) -> None:
    """A disk that is not mounted does not look like an empty lane."""
    with pytest.raises(Unavailable, match="no lane there"):
        DirectoryLane(root)
    root.mkdir()
    with pytest.raises(Unavailable, match="no lane there"):
        DirectoryLane(root)


def test_a_lane_that_vanishes_is_an_outage(root: Path, lane: DirectoryLane) -> None:
    """Not even after it was opened."""
    lane.commit({"a": b"1"}, parent=None)
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(Unavailable):
        lane.head()
    root.mkdir()
    with pytest.raises(Unavailable):
        lane.head()
    with pytest.raises(Unavailable):
        lane.commit({"a": b"1"}, parent=None)
    assert [] == list(root.iterdir())


def test_creating_twice_opens_the_same_lane(root: Path, lane: DirectoryLane) -> None:
    """Creation never empties what is there."""
    revision = lane.commit({"a": b"1"}, parent=None)
    assert DirectoryLane.create(root).head() == revision == DirectoryLane(root).head()


def test_a_folder_with_other_things_is_left_alone(root: Path) -> None:
    """A lane is not strewn over somebody's home folder."""
    root.mkdir()
    (root / "thesis.tex").touch()
    with pytest.raises(Denied, match=r"thesis\.tex"):
        DirectoryLane.create(root)
    assert [root / "thesis.tex"] == list(root.iterdir())


@pytest.mark.parametrize("text", ["", "{}", '{"format": "speedtronic lane"}', "[1"])
def test_another_format_is_denied(root: Path, lane: DirectoryLane, text: str) -> None:
    """A lane of a later version is not written to by this one."""
    (root / "lane.json").write_text(text)
    with pytest.raises(Denied, match=r"lane\.json"):
        DirectoryLane(root)


def test_other_processes_see_a_commit(root: Path, lane: DirectoryLane) -> None:
    """Two objects on one folder are one lane."""
    other = DirectoryLane(root)
    revision = lane.commit({"a": b"1"}, parent=other.head())
    assert other.head() == revision
    assert other.read("a", revision) == b"1"


def test_storage_is_bounded(root: Path, lane: DirectoryLane) -> None:
    """However many commits: old revisions and what only they need are dropped."""
    first = lane.commit({"keep": b"k", "count": b"first"}, parent=None)
    for number in range(20):
        head = lane.commit({"count": b"%d" % number}, parent=ANY)
        assert len(files(root)) <= 2 * 2 + 2 * 2 + 1
    assert lane.read("keep", head) == b"k"
    assert lane.compact()
    assert 2 + 3 == len(files(root))
    with pytest.raises(Missing, match="not kept"):
        lane.read("count", first)
    assert [] == lane.problems()


def test_revisions_are_not_used_again(root: Path) -> None:
    """Neither after a compaction nor in another lane at the same place."""
    seen = []
    for _ in range(2):
        lane = DirectoryLane.create(root, keep=1)
        for _ in range(5):
            seen.append(lane.commit({"a": b"1"}, parent=ANY))
        lane.compact()
        for path in sorted(root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    assert len(set(seen)) == len(seen)


def test_compaction_waits_for_commits(root: Path, lane: DirectoryLane) -> None:
    """Blobs of a commit under way are not swept from under it."""
    source = root.with_name("source")
    os.mkfifo(source)
    script = (
        "import sys; from pathlib import Path;"
        "from speedtronic.shell.lanes.directory import DirectoryLane;"
        "DirectoryLane(Path(sys.argv[1])).commit({'a': Path(sys.argv[2])}, parent=None)"
    )
    with subprocess.Popen([sys.executable, "-c", script, root, source]) as child:
        with source.open("wb") as pipe:  # opens when the commit reads it
            pipe.write(b"1" * 100_000)
            pipe.flush()
            assert not lane.compact()
    assert child.returncode == 0
    assert lane.compact()
    head = lane.head()
    assert head is not None
    assert lane.read("a", head) == b"1" * 100_000


def test_what_dead_commits_left_is_swept(root: Path, lane: DirectoryLane) -> None:
    """Half a file in staging, and a blob without an entry."""
    revision = lane.commit({"a": b"1"}, parent=None)
    whole = files(root)
    (root / "staging/0123").write_bytes(b"half")
    (root / "blobs" / ("0" * 64)).write_bytes(b"orphan")
    assert lane.compact()
    assert whole == files(root)
    assert lane.read("a", revision) == b"1"


@pytest.mark.parametrize("change", ["flip", "cut", "empty", "longer"])
def test_a_damaged_blob_is_corrupt(root: Path, tmp_path: Path, change: str) -> None:
    """Reading, fetching and the check all notice; a fetch leaves no file."""
    lane = DirectoryLane.create(root)
    revision = lane.commit({"a": b"content"}, parent=None)
    [blob] = (root / "blobs").iterdir()
    damaged = {"flip": b"cOntent", "cut": b"con", "empty": b"", "longer": b"content2"}
    blob.write_bytes(damaged[change])
    with pytest.raises(Corrupt, match=blob.name):
        lane.read("a", revision)
    with pytest.raises(Corrupt):
        lane.fetch("a", revision, tmp_path / "target")
    assert [root] == list(tmp_path.iterdir())
    assert 1 == len(lane.problems())


def test_committing_again_heals_a_blob(root: Path, lane: DirectoryLane) -> None:
    """New content is written even if a file of that sum is there."""
    lane.commit({"a": b"content"}, parent=None)
    [blob] = (root / "blobs").iterdir()
    blob.write_bytes(b"damaged")
    revision = lane.commit({"b": b"content"}, parent=ANY)
    assert lane.read("b", revision) == b"content"


def test_a_missing_blob_is_corrupt(root: Path, lane: DirectoryLane) -> None:
    """An entry whose blob is gone is damage; a dropped revision is not."""
    revision = lane.commit({"a": b"content"}, parent=None)
    [blob] = (root / "blobs").iterdir()
    blob.unlink()
    with pytest.raises(Corrupt, match="is missing"):
        lane.read("a", revision)
    assert 1 == len(lane.problems())


def test_a_damaged_entry_is_corrupt(root: Path, lane: DirectoryLane) -> None:
    """A log entry carries its own sum; damage is never an empty lane."""
    lane.commit({"a": b"content"}, parent=None)
    [entry] = (root / "log").iterdir()
    entry.write_bytes(entry.read_bytes().replace(b'"a"', b'"b"'))
    with pytest.raises(Corrupt, match=r"log/0+1 is damaged"):
        lane.head()
    with pytest.raises(Corrupt):
        lane.commit({"a": b"2"}, parent=ANY)
    assert 1 == len(lane.problems())


def test_names_in_an_entry_are_held_to_the_grammar(
    root: Path, lane: DirectoryLane
) -> None:
    """Also somebody who can write to the disk cannot name what is outside."""
    lane.commit({"a": b"content"}, parent=None)
    [entry] = (root / "log").iterdir()
    body = entry.read_bytes().partition(b"\n")[2].replace(b'"a"', b'"../a"')
    entry.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(Corrupt, match=r"\.\./a"):
        lane.head()


@pytest.mark.parametrize(
    "change",
    [
        {"tree": {"a": ["../lane.json", 1]}},
        {"tree": {"a": ["../../secret", 1]}},
        {"tree": {"a": [["x"], 1]}},
        {"tree": {"a": ["b" * 64, -1]}},
        {"tree": {"a": ["b" * 64]}},
        {"tree": []},
        {"serial": 2},
        {"serial": "1"},
        {"previous": "../x"},
        {"nonce": "../x"},
        {"nonce": None},
        {"message": 3},
        {"more": 1},
    ],
    ids=repr,
)
def test_an_entry_of_another_form_is_corrupt(
    root: Path, lane: DirectoryLane, change: dict[str, object]
) -> None:
    """Also with the right sum: a blob is a file of the name that stands there."""
    lane.commit({"a": b"content"}, parent=None)
    [entry] = (root / "log").iterdir()
    told = json.loads(entry.read_bytes().partition(b"\n")[2]) | change
    body = json.dumps(told).encode()
    entry.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(Corrupt, match="log/000000000001 is"):
        lane.head()


@pytest.mark.parametrize("text", [b"[" * 100_000, b"{}", b'{"format": NaN}', b"\xff"])
def test_a_strange_lane_json_is_no_lane(
    root: Path, lane: DirectoryLane, text: bytes
) -> None:
    """Whatever stands there."""
    (root / "lane.json").write_bytes(text)
    with pytest.raises(Denied, match="not of a lane of this version"):
        DirectoryLane(root)


@pytest.mark.parametrize("folder", ["log", "blobs", "staging"])
def test_linked_folders_are_not_followed(
    root: Path, tmp_path: Path, lane: DirectoryLane, folder: str
) -> None:
    """A symbolic link in place of a folder is refused, not written through."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / folder).rmdir()
    (root / folder).symlink_to(outside)
    with pytest.raises(Denied, match="links are not followed"):
        lane.commit({"a": b"1"}, parent=None)
    assert [] == list(outside.iterdir())


def test_linked_files_are_not_followed(
    root: Path, tmp_path: Path, lane: DirectoryLane
) -> None:
    """A blob that is a link to a secret is not read."""
    revision = lane.commit({"a": b"content"}, parent=None)
    [blob] = (root / "blobs").iterdir()
    secret = tmp_path / "secret"
    secret.write_bytes(b"content")
    blob.unlink()
    blob.symlink_to(secret)
    with pytest.raises(Denied, match="links are not followed"):
        lane.read("a", revision)


def test_a_pipe_is_no_blob(root: Path, lane: DirectoryLane) -> None:
    """A named pipe does not make a reader wait for ever."""
    revision = lane.commit({"a": b"content"}, parent=None)
    [blob] = (root / "blobs").iterdir()
    blob.unlink()
    os.mkfifo(blob)
    with pytest.raises(Denied):
        lane.read("a", revision)


def test_a_fetch_replaces_a_link_and_does_not_follow_it(
    tmp_path: Path, lane: DirectoryLane
) -> None:
    """The target of a link at the destination keeps its content."""
    revision = lane.commit({"a": b"new"}, parent=None)
    kept, target = tmp_path / "kept", tmp_path / "target"
    kept.write_bytes(b"old")
    target.symlink_to(kept)
    lane.fetch("a", revision, target)
    assert (b"old", b"new") == (kept.read_bytes(), target.read_bytes())
    assert not target.is_symlink()


def test_a_fetch_to_nowhere_is_the_node_s_own_trouble(
    tmp_path: Path, lane: DirectoryLane
) -> None:
    """The lane is fine, so it is no lane error."""
    revision = lane.commit({"a": b"new"}, parent=None)
    with pytest.raises(StorageError, match="nowhere"):
        lane.fetch("a", revision, tmp_path / "nowhere" / "target")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_denied(root: Path, lane: DirectoryLane) -> None:
    """Only a person can help, so it is not retried for ever."""
    (root / "staging").chmod(0o500)
    with pytest.raises(Denied, match="[Pp]ermission"):
        lane.commit({"a": b"1"}, parent=None)


FULL = """
import resource, signal, sys
from pathlib import Path
from speedtronic.errors import Unavailable
from speedtronic.shell.lanes.directory import DirectoryLane

lane = DirectoryLane(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    lane.commit({"a": b"1", "big": bytes(100_000)}, parent=lane.head())
except Unavailable as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [0, 1, 50_000])
def test_a_full_disk_changes_nothing(
    root: Path, lane: DirectoryLane, limit: int
) -> None:
    """The commit fails with the reason, and leaves no file behind."""
    head = lane.commit({"a": b"0"}, parent=None)
    before = files(root)
    command = [sys.executable, "-c", FULL, str(root), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert before == files(root)
    assert (head, b"0") == (lane.head(), lane.read("a", head))
    assert [] == lane.problems()


def test_a_full_disk_makes_room(root: Path, lane: DirectoryLane) -> None:
    """A commit that fails for space sweeps what dead ones left, so the next can go."""
    lane.commit({"a": b"0"}, parent=None)
    (root / "staging/0123").write_bytes(b"left by the dead")
    command = [sys.executable, "-c", FULL, str(root), "50000"]
    subprocess.run(command, capture_output=True, check=True)
    assert not any((root / "staging").iterdir())


def test_a_commit_is_all_or_nothing_at_every_step(root: Path) -> None:
    """A process killed before its n-th system call, for every n there is.

    Each child commits, which also compacts, and gets a real SIGKILL before call n. The
    lane then verifies, holds all or nothing of the commit, and takes the next one.
    """
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("kill_everywhere.py"), root],
        capture_output=True,
        text=True,
    )
    assert 0 == done.returncode, done.stderr
    assert json.loads(done.stdout)["killed"] > 50
