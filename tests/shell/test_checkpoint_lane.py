"""Checkpoints on a lane: what is kept, what is taken back, what is refused."""

import json
import logging
from pathlib import Path

import pytest
from tests.shell.samples import snapshot

from speedtronic.errors import Denied, LaneError, RunError, Unavailable
from speedtronic.shell.checkpoint import save, verify
from speedtronic.shell.checkpoint_lane import LaneCheckpoints
from speedtronic.shell.checkpoint_manifest import folder_name
from speedtronic.shell.lanes.base import ANY, Lane
from speedtronic.shell.lanes.faulty import Fail, FaultyLane, between
from speedtronic.shell.lanes.memory import MemoryLane


def stored(lane: Lane, name: str = "tiny") -> LaneCheckpoints:
    """The checkpoints of a run on a lane that is open."""
    return LaneCheckpoints("dir:there", name, lambda: lane)


def written(folder: Path, step: int, seed: int = 0) -> tuple[Path, Path]:
    """The record of ``run-SEED`` and its checkpoint of a step."""
    folder.mkdir(exist_ok=True)
    record = folder / "run.json"
    record.write_text(json.dumps({"run_id": f"run-{seed}"}))
    return record, save(folder, snapshot(step=step, seed=seed), replace=True)


def steps(target: LaneCheckpoints) -> list[int]:
    return list(target.look().steps)


def names(lane: Lane) -> list[str]:
    return list(lane.names("", str(lane.head())))


def test_two_are_kept_in_one_commit_each(tmp_path: Path) -> None:
    """The newest and the one before it; what they replace goes with the same commit."""
    lane = MemoryLane()
    target = stored(lane)
    told = [target.store(*written(tmp_path, step)) for step in (1, 2, 3)]

    assert ([True, True, True], [3, 2]) == (told, steps(target))
    folders = {name.split("/")[2] for name in names(lane)}
    assert {"run.json", folder_name(2), folder_name(3)} == folders


def test_what_is_there_is_not_sent_again(tmp_path: Path) -> None:
    """So an answer that was lost costs a look."""
    lane = MemoryLane()
    checkpoint = written(tmp_path, 1)
    lost = FaultyLane(lane, {2: Fail(applied=True)}, print)
    lane.commit({"other": b""}, parent=None)
    with pytest.raises(Unavailable):
        stored(lost).store(*checkpoint)
    head = lane.head()

    assert not stored(lost).store(*checkpoint)
    assert head == lane.head()


def test_the_same_step_may_come_anew(tmp_path: Path) -> None:
    """Also with fewer files than before."""
    lane = MemoryLane()
    target = stored(lane)
    target.store(*written(tmp_path, 1))
    lane.commit({f"checkpoints/tiny/{folder_name(1)}/more": b""}, parent=ANY)
    record, _ = written(tmp_path, 1)
    again = save(tmp_path, snapshot(step=1, values={"other": 1}), replace=True)

    assert target.store(record, again)
    assert not any(name.endswith("/more") for name in names(lane))


def test_going_back_drops_what_was_abandoned(tmp_path: Path) -> None:
    """Or a later start would take it for the run's own future."""
    target = stored(MemoryLane())
    for step in (1, 5, 9):
        target.store(*written(tmp_path, step))
    target.store(*written(tmp_path, 6))

    assert [6, 5] == steps(target)


def test_others_may_commit_in_between(tmp_path: Path) -> None:
    """It decides again on the new head; nothing of theirs is lost."""
    lane = MemoryLane()
    lane.commit({"theirs": b"0"}, parent=None)

    class Busy(MemoryLane):
        """Somebody commits just before each of the first commits."""

        left = 3

        def commit(self, *given: object, **more: object) -> str:
            if self.left:
                self.left -= 1
                lane.commit({"theirs": str(self.left).encode()}, parent=ANY)
            return lane.commit(*given, **more)  # type: ignore[arg-type]

    busy = Busy()
    busy.head, busy.names, busy.read = lane.head, lane.names, lane.read  # type: ignore[method-assign]
    target = stored(busy)

    assert target.store(*written(tmp_path, 1))
    assert b"0" == lane.read("theirs", str(lane.head()))
    assert [1] == steps(stored(lane))


def test_another_run_of_the_name_is_left_alone(tmp_path: Path) -> None:
    """Storing, restoring into its folder and beginning anew all say so."""
    target = stored(MemoryLane())
    target.store(*written(tmp_path / "a", 1))
    mine = tmp_path / "b"
    other = written(mine, 2, seed=1)

    with pytest.raises(Denied, match="holds run run-0 in checkpoints/tiny/"):
        target.store(*other)
    with pytest.raises(RunError, match="is of run run-1"):
        target.restore(mine, mine, required=False)
    with pytest.raises(RunError, match="--overwrite deletes it"):
        target.refuse_another()
    target.clear()
    target.refuse_another()
    assert target.store(*other)


def test_clearing_leaves_the_rest_of_the_lane(tmp_path: Path) -> None:
    """Other runs, and the round's files."""
    lane = MemoryLane()
    lane.commit({"run.json": b""}, parent=None)
    stored(lane, "other").store(*written(tmp_path, 1))
    stored(lane).store(*written(tmp_path, 1))
    stored(lane).clear()

    assert "run.json" in names(lane)
    assert [1] == steps(stored(lane, "other"))
    assert [] == steps(stored(lane))


def test_an_empty_folder_gets_the_newest(tmp_path: Path) -> None:
    """With the run's record, so that it is the same run."""
    lane = MemoryLane()
    for step in (1, 2):
        stored(lane).store(*written(tmp_path / "a", step))
    new = tmp_path / "b"
    new.mkdir()
    stored(lane).restore(new, new / "checkpoints", required=True)

    (found,) = (new / "checkpoints").iterdir()
    assert (folder_name(2), 2) == (found.name, verify(found).step)
    assert "run-0" == json.loads((new / "run.json").read_text())["run_id"]


@pytest.mark.parametrize(
    ("local", "expected"),
    [(1, [1, 2]), (2, [2]), (3, [3])],
    ids=["older", "same", "newer"],
)
def test_only_what_is_newer_is_taken(
    tmp_path: Path, local: int, expected: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """And that is said in one line."""
    lane = MemoryLane()
    stored(lane).store(*written(tmp_path / "a", 2))
    mine = tmp_path / "b"
    written(mine, local)
    with caplog.at_level(logging.INFO):
        stored(lane).restore(mine, mine, required=True)

    assert expected == [int(path.name[5:]) for path in sorted(mine.glob("step-*"))]
    told = ["took step 2 from dir:there: here is step 1"] if local == 1 else []
    assert told == caplog.messages


@pytest.mark.parametrize("torn", ["flipped", "short", "gone", "manifest"])
def test_what_is_damaged_on_the_lane_is_passed_over(
    tmp_path: Path, torn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The one before is used, and the damage is told."""
    lane = MemoryLane()
    for step in (1, 2):
        stored(lane).store(*written(tmp_path / "a", step))
    file = "manifest.json" if torn == "manifest" else "model.safetensors"
    name = f"checkpoints/tiny/{folder_name(2)}/{file}"
    content = lane.read(name, str(lane.head()))
    bad = {"short": content[:-1]}.get(torn, content[:-1] + bytes([content[-1] ^ 1]))
    if torn == "gone":
        lane.commit({}, [name], parent=ANY)
    else:
        lane.commit({name: bad}, parent=ANY)
    new = tmp_path / "b"
    new.mkdir()
    stored(lane).restore(new, new, required=True)

    assert [folder_name(1)] == [path.name for path in new.glob("step-*")]
    (line,) = [r.message for r in caplog.records if r.levelname == "WARNING"]
    assert line.startswith("dir:there: step 2 is passed over: ")


class Swollen(MemoryLane):
    """A lane on which the files of some names are huge, and nothing is fetched."""

    ending = "-"

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        found = super().names(prefix, revision)
        return {n: 2**40 if n.endswith(self.ending) else s for n, s in found.items()}

    def fetch(self, name: str, revision: str, path: Path) -> str:
        assert not name.endswith(self.ending), "it was downloaded"
        return super().fetch(name, revision, path)

    def read(self, name: str, revision: str) -> bytes:
        assert not name.endswith(self.ending), "it was read"
        return super().read(name, revision)


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors", "run.json"])
def test_what_has_another_size_is_not_downloaded(tmp_path: Path, name: str) -> None:
    """Sizes are listed, so nobody fills this disk."""
    lane = Swollen()
    stored(lane).store(*written(tmp_path / "there", 1))
    lane.ending = name
    here = tmp_path / "here"
    here.mkdir()
    with pytest.raises((LaneError, RunError), match="is not there|bytes"):
        stored(lane).restore(here, here / "checkpoints", required=True)


def test_damage_everywhere_begins_nothing(tmp_path: Path) -> None:
    """A run that was there must not begin anew in silence."""
    lane = MemoryLane()
    stored(lane).store(*written(tmp_path / "a", 1))
    name = f"checkpoints/tiny/{folder_name(1)}/state.json"
    lane.commit({name: b"{}"}, parent=ANY)
    new = tmp_path / "b"
    new.mkdir()
    with pytest.raises(RunError, match="holds no usable checkpoint"):
        stored(lane).restore(new, new, required=False)


def test_a_lane_without_the_run_is_a_mistake_only_if_it_was_named(
    tmp_path: Path,
) -> None:
    """With ``auto`` the first start is like every other."""
    stored(MemoryLane()).restore(tmp_path, tmp_path, required=False)
    assert [] == list(tmp_path.iterdir())
    with pytest.raises(RunError, match="holds no checkpoint in checkpoints/tiny/"):
        stored(MemoryLane()).restore(tmp_path, tmp_path, required=True)


def test_a_lane_that_fails_says_so(tmp_path: Path) -> None:
    """Nothing half fetched is left."""
    lane = MemoryLane()
    stored(lane).store(*written(tmp_path / "a", 1))
    failing = FaultyLane(lane, between(5, 99, Fail()), print)
    new = tmp_path / "b"
    new.mkdir()
    with pytest.raises(LaneError):
        stored(failing).restore(new, new / "checkpoints", required=True)

    assert [] == list((new / "checkpoints").iterdir())


def test_a_name_that_is_none_on_a_lane_is_refused() -> None:
    """Before anything is trained."""
    with pytest.raises(RunError, match="run.name: .*'my run'"):
        stored(MemoryLane(), "my run")
