"""Uploads before a commit, each of them once."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from speedtronic.errors import Denied, StorageError, Unavailable
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.testing.hub import HubEmulator

MODEL = "model.safetensors"


@pytest.fixture
def lane(hub_lane: Callable[..., HubLane]) -> HubLane:
    return hub_lane()


def since(hub: HubEmulator, number: int) -> list[str]:
    return [e.endpoint for e in list(hub.log) if e.number >= number]


def now(hub: HubEmulator) -> int:
    return hub.log[-1].number + 1 if hub.log else 0


def test_what_was_prepared_is_a_small_commit(
    hub: HubEmulator, lane: HubLane, tmp_path: Path
) -> None:
    """The slow part is over when the head is looked at."""
    model = tmp_path / "model"
    model.write_bytes(b"x" * 100_000)
    parent = lane.commit({"manifest.json": b"0"}, parent=None)
    lane.names("", parent)
    lane.prepare({MODEL: model, "n/d.safetensors": b"y" * 1000})
    number = now(hub)
    adds = {MODEL: model, "n/d.safetensors": b"y" * 1000, "manifest.json": b"1"}
    lane.commit(adds, parent=parent)

    assert ["commit", "resolve-head"] == since(hub, number)


def test_a_lost_race_uploads_nothing_again(
    hub: HubEmulator, lane: HubLane, tmp_path: Path
) -> None:
    """The next attempt is one request and its check."""
    model = tmp_path / "model"
    model.write_bytes(b"x" * 1000)
    first = lane.commit({"manifest.json": b"0"}, parent=None)
    hub.faults.inject("conflict")
    with pytest.raises(Exception, match="412"):
        lane.commit({MODEL: model, "manifest.json": b"1"}, parent=first)
    number = now(hub)
    lane.commit({MODEL: model, "manifest.json": b"1"}, parent=first)

    assert ["commit", "resolve-head"] == since(hub, number)


def test_a_file_that_changed_is_uploaded_again(lane: HubLane, tmp_path: Path) -> None:
    """Its time of change tells, or its size."""
    model = tmp_path / "model"
    model.write_bytes(b"1")
    lane.commit({MODEL: model}, parent=ANY)
    model.write_bytes(b"2")
    os.utime(model, ns=(1, 1))
    revision = lane.commit({MODEL: model}, parent=ANY)

    assert b"2" == lane.read(MODEL, revision)


def test_the_hub_says_what_is_large(hub: HubEmulator, lane: HubLane) -> None:
    """By its rules and not by ours; an empty file never is."""
    blobs = {MODEL: b"1", "a.json": b"2", "empty.safetensors": b"", "x.weird": b"3"}
    revision = lane.commit(blobs, parent=None)
    files = hub.repo(lane._client.repository).files(revision)

    assert {MODEL} == {name for name, file in files.items() if file.lfs}
    assert blobs == {name: lane.read(name, revision) for name in blobs}


def test_a_file_that_outgrows_git_is_asked_about_again(
    hub: HubEmulator, lane: HubLane
) -> None:
    """Only small ones go where their like went."""
    lane.commit({"run.json": b"1"}, parent=None)
    revision = lane.commit({"run.json": b"1" * (11 << 20)}, parent=ANY)

    assert hub.repo(lane._client.repository).files(revision)["run.json"].lfs


def test_a_full_storage_is_permanent(hub: HubEmulator, lane: HubLane) -> None:
    """It is told once, with what to do, and nothing is committed."""
    hub.faults.inject("storage-quota", where="lfs-batch")
    with pytest.raises(Denied, match="the storage is used up"):
        lane.commit({MODEL: b"1"}, parent=None)

    assert lane.head() is None


@pytest.mark.parametrize(
    "where", ["preupload", "lfs-batch", "lfs-upload", "lfs-verify"]
)
def test_an_outage_during_an_upload_commits_nothing(
    hub: HubEmulator, lane: HubLane, where: str
) -> None:
    """The client tries for a while by itself; then the lane is unavailable."""
    hub.faults.inject("unavailable", where=where, times=None)
    with pytest.raises(Unavailable, match="no usable answer"):
        lane.commit({MODEL: b"1"}, parent=None)
    hub.faults.clear()

    assert lane.head() is None
    lane.commit({MODEL: b"1"}, parent=None)


def test_what_the_hub_dropped_is_uploaded_again(
    hub: HubEmulator, lane: HubLane
) -> None:
    """After a commit that referred to it was refused."""
    repo = hub.repo(lane._client.repository)
    lane.prepare({MODEL: b"1"})
    repo.forget(set(repo.settings.lfs), rewrite=False)
    with pytest.raises(Denied):
        lane.commit({MODEL: b"1"}, parent=None)
    revision = lane.commit({MODEL: b"1"}, parent=None)

    assert b"1" == lane.read(MODEL, revision)


@pytest.mark.parametrize("name", ["a.json", MODEL])
def test_a_file_that_cannot_be_read_is_named(
    lane: HubLane, tmp_path: Path, name: str
) -> None:
    """Missing, or a folder."""
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(StorageError, match=f"{path} cannot be read"):
            lane.commit({name: path}, parent=None)


def test_uploading_is_silent(
    hub_lane: Callable[..., HubLane],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No bars of the client on a training run's screen, and no advice about Xet."""
    blobs = {f"{i}.safetensors": b"%d" % i for i in range(3)}
    for _ in range(2):  # the second time they are all there
        hub_lane().commit(blobs, parent=ANY)

    assert ("", "") == capfd.readouterr()
    assert [] == [r.message for r in caplog.records if r.levelname != "DEBUG"]


def test_many_files_are_asked_about_at_once(hub: HubEmulator, lane: HubLane) -> None:
    """And the same content is uploaded once."""
    blobs: dict[str, bytes | Path] = {f"{i}.safetensors": b"1" for i in range(300)}
    number = now(hub)
    lane.prepare(blobs)

    expected = ["preupload", "preupload", "lfs-batch", "lfs-upload", "lfs-verify"]
    assert expected == since(hub, number)


def test_a_content_that_the_storage_refuses_is_told(
    lane: HubLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub says so inside an answer with status 200."""
    error = {"code": 403, "message": "storage limit reached"}
    answer = [{"oid": "0" * 64, "size": 1, "error": error}]
    target = "speedtronic.shell.lanes.hub.client.post_lfs_batch_info"
    monkeypatch.setattr(target, lambda *given, **named: ([], answer))
    with pytest.raises(Denied, match="the storage is used up"):
        lane.prepare({MODEL: b"1"})
