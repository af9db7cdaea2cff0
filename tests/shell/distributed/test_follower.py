"""A worker's effects: fetching a global model, sending a delta."""

from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
from tests.shell.distributed.test_files import delta, header

from speedtronic.errors import Corrupt, Unavailable
from speedtronic.pure.delta import Weights
from speedtronic.pure.outer import OuterRule, init_outer
from speedtronic.pure.round.events import Fetch
from speedtronic.pure.tree import tree_map
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.files import read_header, write_global
from speedtronic.shell.distributed.follower import Follower
from speedtronic.shell.lanes.memory import MemoryLane

MODEL = Weights(params={"w": torch.randn(3)}, buffers={"n": torch.tensor(4)})


def meta(weights: Weights) -> Weights:
    """Names, shapes and dtypes."""
    found: Weights = tree_map(lambda x: x.to("meta"), weights)
    return found


def published(tmp_path: Path) -> tuple[MemoryLane, Fetch]:
    """A lane with a global model, and the request for it."""
    (tmp_path / "made").mkdir()
    state = init_outer(MODEL, OuterRule())
    weights, _ = write_global(tmp_path / "made", state, {})
    lane = MemoryLane()
    revision = lane.commit(
        {weights.name: tmp_path / "made" / weights.name}, parent=None
    )
    return lane, Fetch(revision=revision, weights=weights)


def test_the_global_model_is_fetched_and_checked(tmp_path: Path) -> None:
    """Nothing is left in the folder."""
    lane, fetch = published(tmp_path)
    (folder := tmp_path / "own").mkdir()
    weights, cursors = Follower(lane, folder, meta(MODEL)).fetch(fetch)
    assert weights is not None
    assert torch.equal(MODEL.params["w"], weights.params["w"])
    assert ((), []) == (cursors, list(folder.iterdir()))


def test_other_bytes_than_the_manifest_says_are_refused(tmp_path: Path) -> None:
    """With both sums."""
    lane, fetch = published(tmp_path)
    data = bytearray(lane.read("model.safetensors", fetch.revision))
    data[-1] ^= 1
    revision = lane.commit({"model.safetensors": bytes(data)}, parent=fetch.revision)
    (folder := tmp_path / "own").mkdir()
    follower = Follower(lane, folder, meta(MODEL))
    with pytest.raises(Corrupt, match="the manifest says sha256"):
        follower.fetch(Fetch(revision=revision, weights=fetch.weights))
    assert [] == list(folder.iterdir())


class Listing(MemoryLane):
    """A lane that says what it likes of sizes, and from which nothing is fetched."""

    size = 0

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        return dict.fromkeys(super().names(prefix, revision), self.size)

    def fetch(self, name: str, revision: str, path: Path) -> str:
        raise AssertionError("it was downloaded")


@pytest.mark.parametrize("told", [None, 2**40])
def test_a_file_of_another_size_is_not_downloaded(
    tmp_path: Path, told: int | None
) -> None:
    """Neither one that the manifest does not announce, nor one it could not hold."""
    _, fetch = published(tmp_path)
    assert fetch.weights is not None
    lane = Listing()
    revision = lane.commit({"model.safetensors": b""}, parent=None)
    lane.size = 2**40
    weights = fetch.weights if told is None else attrs.evolve(fetch.weights, bytes=told)
    follower = Follower(lane, tmp_path, meta(MODEL))
    with pytest.raises(Corrupt, match="bytes, found 1099511627776"):
        follower.fetch(Fetch(revision=revision, weights=weights))


def test_a_model_of_other_shapes_is_refused(tmp_path: Path) -> None:
    """With the path of each tensor."""
    lane, fetch = published(tmp_path)
    (folder := tmp_path / "own").mkdir()
    other = Weights(params={"w": torch.ones(4)}, buffers=MODEL.buffers)
    with pytest.raises(Corrupt, match=r"params.*float32\[3\].*float32\[4\]"):
        Follower(lane, folder, meta(other)).fetch(fetch)


def test_an_upload_sends_the_same_bytes_each_time(tmp_path: Path) -> None:
    """Also after a restart, from the same vectors; cursors are read from it."""
    lane, sent = MemoryLane(), delta()
    told, found = header(sent), []
    for life in ("1", "2"):
        (folder := tmp_path / life).mkdir()
        follower = Follower(lane, folder, meta(MODEL))
        follower.upload(told, sent)
        head = lane.head()
        assert head is not None
        found.append(lane.read(told.name.path, head))
        assert (0,) == follower.fetch(
            Fetch(revision=head, weights=None, headers=(told.name,))
        )[1]
    assert found[0] == found[1]


class Away(MemoryLane):
    """Takes nothing the first time."""

    tries = 0

    def commit(self, *arguments: Any, **more: Any) -> str:
        self.tries += 1
        if self.tries == 1:
            raise Unavailable("no answer")
        return super().commit(*arguments, **more)


def test_a_file_is_written_once_however_often_it_is_sent(tmp_path: Path) -> None:
    """It stays until the next delta takes its place."""
    lane, sent = Away(), delta()
    follower = Follower(lane, tmp_path, meta(MODEL))
    with pytest.raises(Unavailable):
        follower.upload(header(sent), sent)
    [path] = tmp_path.iterdir()
    written = path.stat().st_mtime_ns
    follower.upload(header(sent), sent)
    assert written == path.stat().st_mtime_ns
    with open_delta(path) as file:
        assert header(sent) == read_header(file)
    other = delta()
    follower.upload(header(other), other)
    assert [f"{header(other).id}.safetensors"] == [p.name for p in tmp_path.iterdir()]
