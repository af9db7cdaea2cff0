"""Resuming from the newest whole checkpoint, and deleting old ones."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shell.samples import same_bits, snapshot, training

from speedtronic.errors import CheckpointError
from speedtronic.pure.tree import evolve
from speedtronic.shell.checkpoint import save
from speedtronic.shell.checkpoint_folder import best, find, prune, resume

FILES = [
    "config.json",
    "extra.safetensors",
    "manifest.json",
    "model.safetensors",
    "optimizer.safetensors",
    "state.json",
    "state.safetensors",
]
LIKE = training(seed=9)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def steps(*numbers: int) -> list[str]:
    return [f"step-{number:08d}" for number in numbers]


def fill(folder: Path, *numbers: int, **changes: Any) -> Path:
    for number in numbers:
        save(folder, snapshot(step=number, **changes))
    return folder


def damage(path: Path) -> None:
    """Flip one bit of the weights, which only a sum can notice."""
    data = bytearray((path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "model.safetensors").write_bytes(data)


def poisoned() -> Any:
    nan = torch.tensor([float("nan")])
    return evolve(LIKE, params=LIKE.params | {"x": nan})


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    """Neither a missing nor an empty folder is an error."""
    assert find(tmp_path).path is None
    assert resume(tmp_path / "missing", LIKE, "run-0") is None


def test_the_newest_step_is_resumed(tmp_path: Path) -> None:
    """The number decides, not the time of the file and not the text."""
    fill(tmp_path, 100_000_000, 20, 3)
    found = resume(tmp_path, LIKE, "run-0")

    assert found is not None
    assert (100_000_000, ()) == (found.snapshot.step, found.notes)
    assert same_bits(training(0, 100_000_000), found.snapshot.state)


def test_what_only_looks_like_a_checkpoint_is_not_one(tmp_path: Path) -> None:
    """Other names and plain files are never looked at."""
    fill(tmp_path, 3)
    others = ["step-00000009.old", "step-9", "best", ".step-00000009.0123abcd.tmp"]
    for name in others:
        shutil.copytree(tmp_path / "step-00000003", tmp_path / name)
    (tmp_path / "step-00000010").write_bytes(b"")
    found = resume(tmp_path, LIKE, "run-0")

    assert found is not None and found.snapshot.step == 3
    assert sorted([*others, *steps(3, 10)]) == names(tmp_path)


def test_a_folder_that_cannot_be_read_is_not_empty(tmp_path: Path) -> None:
    """A run does not begin again because its checkpoints are out of reach."""
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(CheckpointError, match="file cannot be read: Not a directory"):
        resume(tmp_path / "file", LIKE, "run-0")


@pytest.mark.parametrize(
    "kind", ["0", "4", "200", "-1", "deleted", "flipped", "swapped"]
)
@pytest.mark.parametrize("name", FILES)
def test_resume_passes_over_any_damage(tmp_path: Path, name: str, kind: str) -> None:
    """The older one is taken, the reason said, and the damaged one kept."""
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    other.mkdir()
    fill(run, 5, 10)
    path = run / "step-00000010" / name
    if kind == "deleted":
        path.unlink()
    elif kind == "flipped":
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    elif kind == "swapped":
        fill(other, 10, seed=1)
        shutil.copyfile(other / "step-00000010" / name, path)
    else:
        size = path.stat().st_size
        # Where the file is shorter than 200 bytes, cut it to its half.
        target = int(kind) if int(kind) < size else size // 2
        os.truncate(path, target if target >= 0 else size - 1)

    word = "foreign" if (name, kind) == ("manifest.json", "swapped") else "damaged"
    told = find(run, "run-0")
    assert run / "step-00000005" == told.path
    found = resume(run, LIKE, "run-0")
    assert found is not None
    assert same_bits(training(0, 5), found.snapshot.state)
    (note,) = found.notes
    (reason,) = told.skipped
    if word != "foreign":
        assert note.startswith(f"{path} ") and reason.startswith(f"{path} ")
    aside = note.rpartition(" renamed to ")[2]
    assert f"step-00000010.{word}" == aside
    assert [*steps(5), aside] == names(run)


def test_the_place_of_a_damaged_one_can_be_saved_to_again(tmp_path: Path) -> None:
    """The run reaches the same step again; nothing that was there is lost."""
    fill(tmp_path, 5, 10)
    for expected in ("step-00000010.damaged", "step-00000010.damaged-2"):
        damage(tmp_path / "step-00000010")
        found = resume(tmp_path, LIKE, "run-0")
        assert found is not None and found.notes[0].endswith(expected)
        fill(tmp_path, 10)

    expected_names = ["step-00000010.damaged", "step-00000010.damaged-2"]
    assert [*steps(5, 10), *expected_names] == names(tmp_path)


def test_several_damaged_ones_are_all_named(tmp_path: Path) -> None:
    """One line each, the newest first."""
    fill(tmp_path, 1, 2, 3)
    damage(tmp_path / "step-00000003")
    (tmp_path / "step-00000002" / "state.json").unlink()
    found = resume(tmp_path, LIKE, "run-0")

    assert found is not None and found.snapshot.step == 1
    first, second = found.notes
    assert "step-00000003/model.safetensors has other bytes" in first
    assert "step-00000002/state.json cannot be read: No such file" in second


def test_no_whole_one_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """A run never starts again from zero because something is damaged."""
    fill(tmp_path, 1, 2)
    damage(tmp_path / "step-00000001")
    damage(tmp_path / "step-00000002")

    with pytest.raises(CheckpointError, match="no usable checkpoint") as caught:
        resume(tmp_path, LIKE, "run-0")
    assert "step-00000001/model" in str(caught.value)
    assert "step-00000002/model" in str(caught.value)
    assert steps(1, 2) == names(tmp_path)


def test_another_structure_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    """A changed model is the user's mistake, not damage."""
    fill(tmp_path, 1, 2)

    with pytest.raises(CheckpointError, match="step-00000002 does not fit this run"):
        resume(tmp_path, training(0, width=8), "run-0")
    assert steps(1, 2) == names(tmp_path)


def test_another_runs_checkpoint_is_passed_over(tmp_path: Path) -> None:
    """It is whole, and still not this run's."""
    fill(tmp_path, 5)
    fill(tmp_path, 10, seed=1)
    found = resume(tmp_path, LIKE, "run-0")

    assert found is not None and found.snapshot.step == 5
    assert "belongs to run run-1, not to run-0" in found.notes[0]
    assert [*steps(5), "step-00000010.foreign"] == names(tmp_path)


def test_weights_that_are_not_finite_are_passed_over(tmp_path: Path) -> None:
    """The last good one is taken; the other stays to be looked at."""
    fill(tmp_path, 5)
    fill(tmp_path, 10, state=poisoned())
    found = resume(tmp_path, LIKE, "run-0")

    assert found is not None and found.snapshot.step == 5
    assert "holds weights that are not finite" in found.notes[0]
    assert [*steps(5), "step-00000010.nonfinite"] == names(tmp_path)


def test_a_chosen_checkpoint_is_taken(tmp_path: Path) -> None:
    """Later ones of the run are put aside, or they would be resumed the next time."""
    fill(tmp_path, 5, 10, 15)
    found = resume(tmp_path, LIKE, "run-0", chosen=tmp_path / "step-00000005")

    assert found is not None and found.snapshot.step == 5
    assert all("is later than the chosen step 5" in note for note in found.notes)
    aside = ["step-00000010.abandoned", "step-00000015.abandoned"]
    assert [*steps(5), *aside] == names(tmp_path)


def test_a_chosen_checkpoint_that_is_bad_is_an_error(tmp_path: Path) -> None:
    """Nothing else is taken in its place, and nothing is renamed."""
    fill(tmp_path, 5, 10)
    damage(tmp_path / "step-00000010")

    with pytest.raises(CheckpointError, match="step-00000010/model.safetensors has"):
        resume(tmp_path, LIKE, "run-0", chosen=tmp_path / "step-00000010")
    with pytest.raises(CheckpointError, match="no such folder"):
        resume(tmp_path, LIKE, "run-0", chosen=tmp_path / "step-00000011")
    fill(tmp_path, 15, state=poisoned())
    with pytest.raises(CheckpointError, match="step-00000015 holds weights that are n"):
        resume(tmp_path, poisoned(), "run-0", chosen=tmp_path / "step-00000015")
    assert steps(5, 10, 15) == names(tmp_path)


def test_a_checkpoint_from_elsewhere_may_be_chosen(tmp_path: Path) -> None:
    """Another run can begin where one ended; within one run ids must agree."""
    other, run = tmp_path / "other", tmp_path / "run"
    other.mkdir()
    run.mkdir()
    fill(other, 5, seed=1)
    found = resume(run, LIKE, "run-0", chosen=other / "step-00000005")

    assert found is not None and found.snapshot.run_id == "run-1"
    with pytest.raises(CheckpointError, match="belongs to run run-1"):
        resume(other, LIKE, "run-0", chosen=other / "step-00000005")


def test_retention_deletes_old_steps_of_this_run(tmp_path: Path) -> None:
    """The newest and the best stay."""
    for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0), (4, None), (5, 9.0)):
        fill(tmp_path, step, validation_loss=loss)
    gone = prune(tmp_path, "run-0", 5, keep_last=2, keep_best=True)

    assert steps(1, 3) == gone
    assert steps(2, 4, 5) == names(tmp_path)
    assert tmp_path / "step-00000002" == best(tmp_path, "run-0")
    assert best(tmp_path, "run-1") is None


def test_retention_touches_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    """Other runs, later steps, unreadable manifests and other names all stay."""
    fill(tmp_path, 1, 2, 3, 4, 9)
    shutil.rmtree(tmp_path / "step-00000001")
    fill(tmp_path, 1, seed=1)
    (tmp_path / "step-00000002" / "manifest.json").write_text("{}")
    (tmp_path / "notes").mkdir()
    gone = prune(tmp_path, "run-0", 4, keep_last=1, keep_best=False)

    assert steps(3) == gone
    assert sorted([*steps(1, 2, 4, 9), "notes"]) == names(tmp_path)


def test_bad_weights_never_push_good_ones_out(tmp_path: Path) -> None:
    """With one to keep, the last good one stays beside them; the newest bad one too."""
    fill(tmp_path, 1, 2)
    fill(tmp_path, 3, 4, state=poisoned(), validation_loss=0.0)
    gone = prune(tmp_path, "run-0", 4, keep_last=1, keep_best=True)

    assert steps(1, 3) == gone
    assert steps(2, 4) == names(tmp_path)
    assert tmp_path / "step-00000002" == best(tmp_path, "run-0")


def test_everything_is_kept_when_asked(tmp_path: Path) -> None:
    """No number, no deletion."""
    fill(tmp_path, 1, 2, 3)

    assert [] == prune(tmp_path, "run-0", 3, keep_last=None, keep_best=False)
    assert steps(1, 2, 3) == names(tmp_path)
