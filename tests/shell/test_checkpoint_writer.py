"""Saving behind the training."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shell.samples import same_bits, snapshot, training
from tests.shell.test_atomic import file_size_limit, without_permission

from speedtronic.errors import CheckpointError, StorageError
from speedtronic.shell import checkpoint_writer
from speedtronic.shell.checkpoint import load, save
from speedtronic.shell.checkpoint_folder import find
from speedtronic.shell.checkpoint_writer import CheckpointWriter


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def steps(*numbers: int) -> list[str]:
    return [f"step-{number:08d}" for number in numbers]


def test_a_save_is_on_the_disk_when_the_writer_closes(tmp_path: Path) -> None:
    """The folder is made, and the snapshot is there bit for bit."""
    with CheckpointWriter(tmp_path / "a" / "b") as writer:
        writer.save(snapshot(step=1))

    found = load(tmp_path / "a" / "b" / "step-00000001", training(0))
    assert same_bits(snapshot(step=1).state, found.state)


def test_the_training_may_write_over_what_it_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is taken before `save` returns, the writing is done behind it."""
    training_went_on = threading.Event()

    def late(*arguments: Any, **how: Any) -> Path:
        assert training_went_on.wait(60)
        return save(*arguments, **how)

    monkeypatch.setattr(checkpoint_writer, "save", late)
    state = training(0, 1)
    with CheckpointWriter(tmp_path) as writer:
        writer.save(snapshot(step=1, state=state))
        state.params["layer.weight"].zero_()
        assert [] == names(tmp_path)
        training_went_on.set()

    assert same_bits(training(0, 1), load(tmp_path / "step-00000001", state).state)


def test_one_write_is_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second request waits for the first; both are written, in order."""
    running, most, order = 0, 0, []

    def counted(folder: Path, snap: Any, **how: Any) -> Path:
        nonlocal running, most
        running += 1
        most = max(most, running)
        order.append(snap.step)
        path = save(folder, snap)
        running -= 1
        return path

    monkeypatch.setattr(checkpoint_writer, "save", counted)
    with CheckpointWriter(tmp_path) as writer:
        for step in range(1, 6):
            writer.save(snapshot(step=step))

    assert (1, [1, 2, 3, 4, 5]) == (most, order)


def test_the_last_save_waits_for_the_disk(tmp_path: Path) -> None:
    """`save_now` returns when everything asked for is there."""
    with CheckpointWriter(tmp_path) as writer:
        writer.save(snapshot(step=1))
        writer.save_now(snapshot(step=2))
        assert steps(1, 2) == names(tmp_path)


def test_each_checkpoint_is_told_before_others_are_deleted(tmp_path: Path) -> None:
    """So that whoever is told can keep what retention does not."""
    told = []

    def saved(path: Path) -> None:
        told.append((path.name, names(tmp_path)))

    with CheckpointWriter(tmp_path, keep_last=1, saved=saved) as writer:
        writer.save(snapshot(step=1))
        writer.save_now(snapshot(step=2))
        writer.save_now(snapshot(step=2))

    assert [("step-00000001", steps(1)), ("step-00000002", steps(1, 2))] == told


def test_a_step_may_be_saved_anew(tmp_path: Path) -> None:
    """A newer round was taken in between two steps; nothing else is left."""
    newer = snapshot(step=1, seed=2)
    with CheckpointWriter(tmp_path) as writer:
        writer.save(snapshot(step=1))
        writer.save_now(newer, replace=True)
    found = load(tmp_path / "step-00000001", newer.state)

    assert ["step-00000001"] == names(tmp_path)
    assert same_bits(newer.state, found.state)


def test_a_step_is_saved_once(tmp_path: Path) -> None:
    """The final save of a step that was due anyway costs nothing."""
    with CheckpointWriter(tmp_path) as writer:
        writer.save(snapshot(step=1))
        writer.save(snapshot(step=1))
        writer.save_now(snapshot(step=1))
    with CheckpointWriter(tmp_path) as writer:
        writer.save_now(snapshot(step=1))

    assert steps(1) == names(tmp_path)


def test_another_runs_step_is_not_written_over(tmp_path: Path) -> None:
    """It is refused, and stays."""
    save(tmp_path, snapshot(step=1, seed=1))

    with CheckpointWriter(tmp_path) as writer:
        with pytest.raises(CheckpointError, match="is there already"):
            writer.save_now(snapshot(step=1))
    assert "run-1" == load(tmp_path / "step-00000001", training(1)).run_id


def test_old_ones_go_after_the_new_one_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one to keep there are two for a moment, never none."""
    seen = []
    real = checkpoint_writer.prune

    def watched(folder: Path, *rest: Any, **options: Any) -> list[str]:
        seen.append(names(folder))
        return real(folder, *rest, **options)

    monkeypatch.setattr(checkpoint_writer, "prune", watched)
    with CheckpointWriter(tmp_path, keep_last=1, keep_best=False) as writer:
        for step in (1, 2, 3):
            writer.save(snapshot(step=step))

    assert [steps(1), steps(1, 2), steps(2, 3)] == seen
    assert steps(3) == names(tmp_path)


def test_bad_weights_do_not_replace_good_ones(tmp_path: Path) -> None:
    """The thread notices them by itself."""
    bad = {"w": torch.tensor([float("nan")])}
    with CheckpointWriter(tmp_path, keep_last=1) as writer:
        writer.save(snapshot(step=1, state={"w": torch.ones(1)}, validation_loss=2.0))
        for step in (2, 3):
            writer.save(snapshot(step=step, state=bad, validation_loss=1.0))

    assert steps(1, 3) == names(tmp_path)
    assert tmp_path / "step-00000001" == find(tmp_path).path


def test_an_error_comes_up_at_the_next_call(tmp_path: Path) -> None:
    """The thread's failure is nobody's secret; the old one is intact."""
    with CheckpointWriter(tmp_path, keep_last=1) as writer:
        writer.save(snapshot(step=1))
        writer.wait()
        with file_size_limit(100):
            writer.save(snapshot(step=2))
            with pytest.raises(CheckpointError, match=r"step 2 was not saved.*ulimit"):
                writer.save(snapshot(step=3))
        writer.save(snapshot(step=4))

    assert steps(4) == names(tmp_path)


def test_an_error_comes_up_at_the_end(tmp_path: Path) -> None:
    """The last failure is not lost either, and the last good one still loads."""
    with pytest.raises(CheckpointError, match="step 2 was not saved, earlier checkpoi"):
        with CheckpointWriter(tmp_path, keep_last=1) as writer:
            writer.save(snapshot(step=1))
            writer.wait()
            with file_size_limit(100):
                writer.save(snapshot(step=2))
                let_it_fail(writer)

    assert steps(1) == names(tmp_path)
    assert load(tmp_path / "step-00000001", training(0)).step == 1


def let_it_fail(writer: CheckpointWriter) -> None:
    """Let the write in flight end without asking how it went."""
    pending = writer._pending
    assert pending is not None and pending.exception(60) is not None


def test_a_folder_that_cannot_be_written_is_found_at_once(tmp_path: Path) -> None:
    """Before the first step, not at the first save."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="a file, not a folder|name is taken"):
        CheckpointWriter(tmp_path / "file" / "checkpoints")
    with without_permission(tmp_path), pytest.raises(StorageError, match="permission"):
        CheckpointWriter(tmp_path)


KILLS = """
import json, os, shutil, signal, sys
from pathlib import Path
from speedtronic.shell.checkpoint_folder import find
from speedtronic.shell.checkpoint_writer import CheckpointWriter
from tests.shell.samples import snapshot

calls = ["write", "fsync", "rename", "mkdir", "open", "unlink", "rmdir"]
root = Path(sys.argv[1])

def save(folder, step):
    with CheckpointWriter(folder, keep_last=1, keep_best=False) as writer:
        writer.save(snapshot(step=step))

def die_at(number):
    count = iter(range(number))
    os_write = os.write
    def dying(real):
        def call(*arguments, **options):
            if next(count, None) is None:
                if real is os_write:
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)
        return call
    for name in calls:
        setattr(os, name, dying(getattr(os, name)))

def killed(folder, number):
    child = os.fork()
    if child == 0:
        die_at(number)
        save(folder, 2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

save(root / "first", 1)
told, code = [], None
while code != 0:
    folder = root / str(len(told))
    shutil.copytree(root / "first", folder)
    code = killed(folder, len(told))
    left = sorted(os.listdir(folder))
    found = find(folder)
    save(folder, 3)
    after = sorted(os.listdir(folder))
    told.append([code, left, found.path.name, list(found.skipped), after])
print(json.dumps(told))
"""


def test_a_kill_anywhere_in_a_save_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """A real process dies before each system call of a save, or in half a write."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", KILLS, str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"},
    )
    assert "" == done.stderr

    told = json.loads(done.stdout)
    assert len(told) > 30
    assert [-9] * (len(told) - 1) + [0] == [code for code, *_ in told]
    chosen = [path for _, _, path, _, _ in told]
    # The new one counts from the moment of its rename on, and not before.
    change = chosen.index("step-00000002")
    assert steps(1) * change + steps(2) * (len(told) - change) == chosen
    assert all(skipped == [] for _, _, _, skipped, _ in told)
    assert any(name.endswith(".tmp") for _, left, *_ in told for name in left)
    assert all(after == steps(3) for *_, after in told)
