"""Token stores on a lane."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speedtronic.errors import ConfigError, Corrupt, DataError, Missing, Unavailable
from speedtronic.shell.data import Data, travel
from speedtronic.shell.data.documents import TextFiles
from speedtronic.shell.data.prepare import prepare_store
from speedtronic.shell.data.source import TextSource
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.tokenizers import ByteTokenizer
from speedtronic.shell.data.travel import (
    fetch_store,
    is_pushed,
    is_store,
    push_store,
)
from speedtronic.shell.lanes import MemoryLane, parse_lane

Opened = Callable[..., Data]
Text = Callable[..., Path]
CONTENT = b"a store of some parts"


@pytest.fixture
def store(tmp_path: Path, text: Text, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store whose files travel in parts of eight bytes."""
    monkeypatch.setattr(travel, "PART_BYTES", 8)
    monkeypatch.setattr(travel, "PARTS_PER_COMMIT", 1)
    files = TextFiles([text(CONTENT)], "text.txt", TextRules())
    return prepare_store(TextSource(files, ByteTokenizer()), tmp_path / "cache")


class Failing(MemoryLane):
    """A lane that fails after some transfers."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left, self.transfers = left, 0

    def commit(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        """Fail, or commit."""
        self._count()
        return super().commit(*args, **kwargs)

    def fetch(self, name: str, revision: str, path: Path) -> str:
        """Fail, or fetch."""
        self._count()
        return super().fetch(name, revision, path)

    def _count(self) -> None:
        if self.left == 0:
            raise Unavailable("the line is dead")
        self.left -= 1
        self.transfers += 1


def contents(folder: Path) -> dict[str, bytes]:
    """What is in a store's folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_there_and_back(tmp_path: Path, store: Store) -> None:
    """What is fetched is what was pushed, byte for byte but for its description."""
    lane = MemoryLane()
    push_store(lane, store)
    back = fetch_store(lane, store.about.fingerprint, tmp_path / "other")

    assert store.about == back.about
    for name in store.about.sha256:
        assert contents(store.folder)[name] == contents(back.folder)[name]
    assert set(contents(store.folder)) == set(contents(back.folder))


def test_the_beginning_of_a_fingerprint_will_do(tmp_path: Path, store: Store) -> None:
    """Eight characters are enough, seven are not."""
    lane = MemoryLane()
    push_store(lane, store)
    fetch_store(lane, store.about.fingerprint[:8], tmp_path / "other")
    with pytest.raises(Missing, match="expected 8 characters"):
        fetch_store(lane, store.about.fingerprint[:7], tmp_path / "other")


def test_the_lane_is_not_asked_twice(tmp_path: Path, store: Store) -> None:
    """What was fetched once is there when the lane is not."""
    lane = MemoryLane()
    push_store(lane, store)
    fetch_store(lane, store.about.fingerprint, tmp_path / "other")
    again = fetch_store(MemoryLane(), store.about.fingerprint, tmp_path / "other")

    assert store.about == again.about


def test_nothing_is_sent_twice(store: Store) -> None:
    """A second push finds everything there."""
    lane = Failing(99)
    first = push_store(lane, store)
    before = lane.transfers

    assert first == push_store(lane, store)
    assert before == lane.transfers


@pytest.mark.parametrize("left", range(6))
def test_an_interrupted_push_goes_on(tmp_path: Path, store: Store, left: int) -> None:
    """Six transfers in all; those that were done are not repeated."""
    lane = Failing(left)
    with pytest.raises(Unavailable):
        push_store(lane, store)
    lane.left = 6 - left
    push_store(lane, store)
    lane.left = 99

    assert (
        CONTENT
        == contents(
            fetch_store(lane, store.about.fingerprint, tmp_path / "other").folder
        )["tokens.bin"]
    )


@pytest.mark.parametrize("left", range(5))
def test_an_interrupted_fetch_goes_on(tmp_path: Path, store: Store, left: int) -> None:
    """Five parts in all; those that arrived whole are not fetched again."""
    lane = Failing(99)
    push_store(lane, store)
    lane.left = left
    with pytest.raises(Unavailable):
        fetch_store(lane, store.about.fingerprint, tmp_path / "other")
    lane.left = 5 - left
    back = fetch_store(lane, store.about.fingerprint, tmp_path / "other")

    assert store.about == back.about


def test_a_part_that_arrived_damaged_is_fetched_again(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong bytes are refused and leave nothing that would be taken for right."""
    lane = MemoryLane()
    push_store(lane, store)
    fetch = lane.fetch
    monkeypatch.setattr(lane, "fetch", lambda *args: fetch(*args) and "0" * 64)
    with pytest.raises(Corrupt, match="is not the part that parts.json names"):
        fetch_store(lane, store.about.fingerprint, tmp_path / "other")
    monkeypatch.undo()
    monkeypatch.setattr(travel, "PART_BYTES", 8)

    assert (
        store.about
        == fetch_store(lane, store.about.fingerprint, tmp_path / "other").about
    )


def test_a_saved_part_that_is_damaged(tmp_path: Path, store: Store) -> None:
    """The files are checked as wholes; damaged ones are thrown away."""
    lane = Failing(99)
    push_store(lane, store)
    lane.left = 3
    other = tmp_path / "other"
    with pytest.raises(Unavailable):
        fetch_store(lane, store.about.fingerprint, other)
    lane.left = 99
    (part,) = other.glob(".*.part")
    (part / "documents.bin").write_bytes(b"x" * 16)
    with pytest.raises(Corrupt, match="documents.bin of the token store"):
        fetch_store(lane, store.about.fingerprint, other)

    assert store.about == fetch_store(lane, store.about.fingerprint, other).about


def test_a_lane_without_it(tmp_path: Path, store: Store) -> None:
    """Neither an empty lane nor one with another store."""
    lane = MemoryLane()
    with pytest.raises(Missing, match="holds 0 token stores"):
        fetch_store(lane, "f" * 64, tmp_path / "other")
    push_store(lane, store)
    with pytest.raises(Missing, match="holds 0 token stores 'ffff"):
        fetch_store(lane, "f" * 64, tmp_path / "other")


def test_parts_share_commits(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five parts in commits of two, and the description."""
    monkeypatch.setattr(travel, "PARTS_PER_COMMIT", 2)
    lane = Failing(99)
    push_store(lane, store)

    assert 4 == lane.transfers
    assert (
        store.about
        == fetch_store(lane, store.about.fingerprint, tmp_path / "other").about
    )


def test_a_store_is_there_when_all_of_it_is(store: Store) -> None:
    """Parts alone are none."""
    lane = Failing(2)
    with pytest.raises(Unavailable):
        push_store(lane, store)
    fingerprint = store.about.fingerprint
    assert not is_pushed(lane, fingerprint, str(lane.head()))
    lane.left = 99

    assert is_pushed(lane, fingerprint, push_store(lane, store))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("dir:lane@0123456789abcdef", True),
        ("hub:me/run@01234567", True),
        ("hub:me/run@main", False),
        ("me/run@0123456789abcdef", False),
        ("books/*.txt", False),
    ],
)
def test_a_path_that_is_a_store_on_a_lane(spec: str, expected: bool) -> None:
    """By its form alone."""
    assert expected is is_store(spec)


def test_a_path_that_is_a_store(tmp_path: Path, store: Store) -> None:
    """Whatever its name looks like."""
    assert is_store(str(store.folder))
    assert not is_store(str(tmp_path))
    odd = tmp_path / "dir:x@0123456789abcdef"
    odd.write_text("a text")
    assert not is_store(str(odd))


def test_training_from_a_lane_or_a_folder(
    opened: Opened, tmp_path: Path, text: Text
) -> None:
    """The batches are those of the text, on a machine that has no text."""
    data = opened(text_path=text(bytes(range(100))))
    (folder,) = (p for p in (tmp_path / "cache").iterdir() if p.is_dir())
    place = f"dir:{tmp_path / 'lane'}"
    push_store(parse_lane(place, create=True), Store(folder))
    fingerprint = Store(folder).about.fingerprint
    elsewhere = {"cache_dir": str(tmp_path / "elsewhere")}
    for name in (str(folder), f"{place}@{fingerprint[:16]}"):
        other = opened(store=name, **elsewhere)

        assert data.fingerprint == other.fingerprint
        for step in (0, 30):
            expected, found = (d.train_batch(step).micro_batches for d in (data, other))

            assert expected[0]["labels"].tolist() == found[0]["labels"].tolist()


def test_stores_that_are_none(opened: Opened, tmp_path: Path) -> None:
    """A folder without one, and a place that is no lane."""
    with pytest.raises(DataError, match="is not a token store"):
        opened(store=str(tmp_path))
    with pytest.raises(ConfigError, match="lane 'x': expected"):
        opened(store="x@abcdefgh")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"max_id": 116', '"max_id": 5'),
        ("documents.bin", "../../evil.bin"),
        ('"parts": {', '"part": {'),
        ('"schema": 1', '"schema": "1"'),
    ],
)
def test_a_lane_that_lies(tmp_path: Path, store: Store, old: str, new: str) -> None:
    """A description that was changed does not fit the fingerprint."""
    lane = MemoryLane()
    revision = push_store(lane, store)
    name = f"tokens/{store.about.fingerprint}/parts.json"
    told = lane.read(name, revision).decode()
    lane.commit({name: told.replace(old, new).encode()}, parent=revision)
    with pytest.raises(Corrupt, match="does not describe it"):
        fetch_store(lane, store.about.fingerprint, tmp_path / "other")

    assert old in told
    assert not (tmp_path / "other").exists()


def made_up(store: Store, folder: Path, **changes: bytes | int) -> MemoryLane:
    """A lane with a store of other content, under its own fingerprint."""
    about = json.loads((store.folder / "store.json").read_text())
    shutil.copytree(store.folder, folder)
    for name, value in changes.items():
        if isinstance(value, bytes):
            (folder / f"{name}.bin").write_bytes(value)
            about["sha256"][f"{name}.bin"] = hashlib.sha256(value).hexdigest()
        else:
            about[name] = value
    (folder / "store.json").write_text(json.dumps(about))
    lane = MemoryLane()
    push_store(lane, Store(folder))
    return lane


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"max_id": 99}, "it holds the id 116, its description says 99"),
        ({"documents": np.array([[20, 9]]).tobytes()}, "where its 21 tokens do"),
        ({"documents": np.array([[2**40, 9]]).tobytes()}, "where its 21 tokens do"),
        ({"documents": np.array([[21, -9]]).tobytes()}, "less than no bytes"),
    ],
)
def test_a_store_that_was_made_up(
    tmp_path: Path, store: Store, changes: dict[str, Any], told: str
) -> None:
    """All sums are right: what the files hold is looked at, once, and not kept."""
    lane = made_up(store, tmp_path / "made", **changes)
    fingerprint = Store(tmp_path / "made").about.fingerprint
    with pytest.raises(Corrupt, match=told):
        fetch_store(lane, fingerprint, tmp_path / "other")
    assert {".lock"} == {path.suffix for path in (tmp_path / "other").iterdir()}


def test_a_part_of_another_size_is_not_fetched(tmp_path: Path, store: Store) -> None:
    """What is larger than it was said to be does not reach the disk."""
    lane = MemoryLane()
    push_store(lane, store)
    name = next(n for n in lane.names("tokens/", str(lane.head())) if "/00000-" in n)
    lane.commit({name: bytes(10_000)}, parent=lane.head())
    with pytest.raises(Corrupt, match="is not the part that parts.json names"):
        fetch_store(lane, store.about.fingerprint, tmp_path / "other")


def test_a_huge_description_is_not_read(tmp_path: Path, store: Store) -> None:
    """Its size is known before."""

    class Huge(MemoryLane):
        def names(self, prefix: str, revision: str) -> dict[str, int]:
            return dict.fromkeys(super().names(prefix, revision), 2**40)

        def read(self, name: str, revision: str) -> bytes:
            raise AssertionError("read")

    lane = Huge()
    push_store(lane, store)
    with pytest.raises(Corrupt, match="at most 16777216 describe a store"):
        fetch_store(lane, store.about.fingerprint, tmp_path / "other")
