"""The run folder: one owner, one run, and what a continuation may change."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.shell.samples import snapshot
from tests.shell.test_atomic import file_size_limit, without_permission

from speedtronic.errors import ConfigError, RunError
from speedtronic.pure.config import Config, Secret
from speedtronic.shell.checkpoint import save
from speedtronic.shell.rundir import RunDirectory

PLAIN = Config()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def changed(section: str, **values: Any) -> Config:
    part = attrs.evolve(getattr(PLAIN, section), **values)
    return attrs.evolve(PLAIN, **{section: part})


def begin(path: Path, config: Config = PLAIN) -> str:
    """Begin a run and leave it; return its id."""
    with RunDirectory.open(path, "new", config) as run:
        return run.run_id


@pytest.mark.parametrize("mode", ["new", "auto", "overwrite"])
def test_an_empty_folder_begins_a_run(tmp_path: Path, mode: Any) -> None:
    """So does a missing one, with its parents."""
    for path in (tmp_path / "a" / "b", tmp_path / "c"):
        if path.name == "c":
            path.mkdir()
        with RunDirectory.open(path, mode, PLAIN) as run:
            assert not run.resumed
            assert ((), None) == (run.notes, run.finished_step)
            assert path / "checkpoints" == run.checkpoints
        assert [".lock", "run.json"] == names(path)


def test_two_runs_have_two_ids(tmp_path: Path) -> None:
    """Nothing but chance is in them."""
    assert begin(tmp_path / "a") != begin(tmp_path / "b")


@pytest.mark.parametrize("mode", ["resume", "auto"])
def test_a_run_is_continued(tmp_path: Path, mode: Any) -> None:
    """It keeps its id and its beginning."""
    run_id = begin(tmp_path)
    before = (tmp_path / "run.json").read_bytes()

    with RunDirectory.open(tmp_path, mode, PLAIN) as run:
        assert (True, run_id, ()) == (run.resumed, run.run_id, run.notes)
    assert before == (tmp_path / "run.json").read_bytes()


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    """A missing folder is not made by the attempt."""
    with pytest.raises(RunError, match="a holds no run to resume"):
        RunDirectory.open(tmp_path / "a", "resume", PLAIN)
    assert [] == names(tmp_path)


def test_a_second_run_needs_a_word(tmp_path: Path) -> None:
    """The refusal says what can be done, and changes nothing."""
    begin(tmp_path)
    before = (tmp_path / "run.json").read_bytes()

    with pytest.raises(RunError, match="a run already: --resume .*--overwrite"):
        RunDirectory.open(tmp_path, "new", PLAIN)
    assert before == (tmp_path / "run.json").read_bytes()


@pytest.mark.parametrize("mode", ["new", "auto", "overwrite"])
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, mode: Any) -> None:
    """Whatever the mode, it is not a run's."""
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).write_bytes(b"precious")

    with pytest.raises(RunError, match=r"holds no run \(a, b, c, \.\.\.\); choose"):
        RunDirectory.open(tmp_path, mode, PLAIN)
    assert ["a", "b", "c", "d"] == [n for n in names(tmp_path) if n != ".lock"]
    with pytest.raises(RunError, match="a run folder is a folder|a file, not|taken"):
        RunDirectory.open(tmp_path / "a", mode, PLAIN)


def test_a_new_run_does_not_even_leave_a_lock_in_it(tmp_path: Path) -> None:
    """What is not ours is not written to."""
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(RunError):
        RunDirectory.open(tmp_path, "new", PLAIN)

    assert ["a"] == names(tmp_path)


def test_overwriting_deletes_the_run_and_nothing_else(tmp_path: Path) -> None:
    """Its checkpoints and records go; a stranger's files stay and are named."""
    old = begin(tmp_path)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    for step in (1, 2):
        save(checkpoints, snapshot(step=step))
    (checkpoints / "step-00000002").rename(checkpoints / "step-00000002.damaged")
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    (tmp_path / "tensorboard" / "events").mkdir(parents=True)
    outside = tmp_path.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_text("")
    (tmp_path / "wandb").symlink_to(outside)
    (tmp_path / "notes.txt").write_text("precious")

    with RunDirectory.open(tmp_path, "overwrite", PLAIN) as run:
        assert run.run_id != old and not run.resumed
        assert ("not this run's, left as it is: notes.txt",) == run.notes
    assert [".lock", "notes.txt", "run.json"] == names(tmp_path)
    assert ["precious"] == names(outside)


def test_overwriting_spares_strangers_beside_the_checkpoints(tmp_path: Path) -> None:
    """The checkpoint folder stays if something else is in it."""
    begin(tmp_path)
    (tmp_path / "checkpoints" / "mine").mkdir(parents=True)

    RunDirectory.open(tmp_path, "overwrite", PLAIN).close()
    assert ["mine"] == names(tmp_path / "checkpoints")


def test_overwriting_takes_a_damaged_record(tmp_path: Path) -> None:
    """It is on its way out anyway."""
    begin(tmp_path)
    (tmp_path / "run.json").write_text("nonsense")

    with RunDirectory.open(tmp_path, "overwrite", PLAIN) as run:
        assert not run.resumed


@pytest.mark.parametrize("text", ["", "nonsense", "{}", "[]", '{"schema": 99}'])
def test_a_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    """A run does not begin again because its record cannot be read."""
    begin(tmp_path)
    (tmp_path / "run.json").write_text(text)

    for mode in ("resume", "auto"):
        with pytest.raises(RunError, match=r"run.json is damaged or of another versio"):
            RunDirectory.open(tmp_path, mode, PLAIN)  # type: ignore[arg-type]
    assert text == (tmp_path / "run.json").read_text()


@pytest.mark.parametrize(
    "change",
    [
        {"finish": {"step": "3", "max_steps": 3, "max_minutes": None}},
        {"finish": {"step": 3, "max_steps": 3}},
        {"finish": []},
        {"config": 3},
        {"config": {"run": {"name": "../x"}}},
        {"run_id": None},
        {"run_id": "\x1b[2J"},
        {"more": 1},
    ],
    ids=repr,
)
def test_a_record_of_another_form_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    """Field by field, before anything goes by it."""
    begin(tmp_path)
    told = json.loads((tmp_path / "run.json").read_text()) | change
    (tmp_path / "run.json").write_text(json.dumps(told))
    with pytest.raises(RunError, match=r"run.json is damaged or of another versio"):
        RunDirectory.open(tmp_path, "resume", PLAIN)


def test_what_may_change_is_said(tmp_path: Path) -> None:
    """Steps and logging may, and the record follows."""
    begin(tmp_path)
    config = attrs.evolve(
        changed("run", max_steps=2000),
        logging=changed("logging", every_steps=5).logging,
    )
    with RunDirectory.open(tmp_path, "resume", config) as run:
        first, second = run.notes

    assert first.startswith("changed since the run began: run.max_steps: 1000 -> 2000")
    assert "changed since the run began: logging.every_steps: 1 -> 5" == second
    with RunDirectory.open(tmp_path, "resume", config) as run:
        assert () == run.notes


def test_what_may_not_change_is_refused_by_name(tmp_path: Path) -> None:
    """One line for each field, with both values; the record stays as it was."""
    begin(tmp_path)
    before = (tmp_path / "run.json").read_bytes()
    config = attrs.evolve(
        changed("optimizer", lr=1e-3), model=changed("model", d_model=64).model
    )
    with pytest.raises(ConfigError) as caught:
        RunDirectory.open(tmp_path, "resume", config)

    model, optimizer = caught.value.problems
    assert model.startswith("model.d_model: 256 -> 64: the run in ")
    assert optimizer.startswith("optimizer.lr: 0.0003 -> 0.001: the run in ")
    assert before == (tmp_path / "run.json").read_bytes()


def test_a_secret_stays_out_of_the_folder(tmp_path: Path) -> None:
    """It is neither stored nor missed."""
    config = changed("distributed", token=Secret("hf_secret"))
    begin(tmp_path, config)

    assert b"hf_secret" not in (tmp_path / "run.json").read_bytes()
    with RunDirectory.open(tmp_path, "resume", config) as run:
        assert () == run.notes


def test_a_finished_run_is_known(tmp_path: Path) -> None:
    """Until its end is moved beyond what it did."""
    with RunDirectory.open(tmp_path, "new", PLAIN) as run:
        run.finish(1000)
        assert 1000 == run.finished_step
    for config, expected in (
        (PLAIN, 1000),
        (changed("run", max_steps=2000), None),
        (changed("run", max_steps=900), 1000),
    ):
        with RunDirectory.open(tmp_path, "resume", config) as run:
            assert expected == run.finished_step


def test_a_run_that_ended_by_the_clock_is_finished(tmp_path: Path) -> None:
    """Its step may be far below the number of steps; more minutes reopen it."""
    timed = changed("run", max_minutes=1.0, max_steps=5)
    with RunDirectory.open(tmp_path, "new", timed) as run:
        run.finish(57)

    with RunDirectory.open(tmp_path, "resume", timed) as run:
        assert 57 == run.finished_step
    more = changed("run", max_minutes=2.0, max_steps=5)
    with RunDirectory.open(tmp_path, "resume", more) as run:
        assert run.finished_step is None


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    """Within a process, too; every mode is refused; closing gives it free."""
    with RunDirectory.open(tmp_path, "new", PLAIN):
        for mode in ("new", "resume", "auto", "overwrite"):
            with pytest.raises(RunError, match=f"in use by process {os.getpid()} on "):
                RunDirectory.open(tmp_path, mode, PLAIN)  # type: ignore[arg-type]
    RunDirectory.open(tmp_path, "auto", PLAIN).close()


def test_a_refused_folder_is_not_locked(tmp_path: Path) -> None:
    """Whoever could not take it does not keep it either."""
    begin(tmp_path)
    for _ in range(2):
        with pytest.raises(RunError, match="holds a run already"):
            RunDirectory.open(tmp_path, "new", PLAIN)


OWNER = """
import os, sys
from pathlib import Path
from speedtronic.pure.config import Config
from speedtronic.shell.rundir import RunDirectory
run = RunDirectory.open(Path(sys.argv[1]), "auto", Config())
if sys.argv[2] == "alone" or os.fork() == 0:
    os.write(1, f"{os.getpid()}\\n".encode())
sys.stdin.read()
"""


def start(path: Path, how: str) -> Any:
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_live_process_holds_the_folder_and_a_killed_one_does_not(
    tmp_path: Path,
) -> None:
    """The owner's pid and host are named; SIGKILL releases the lock."""
    with start(tmp_path, "alone") as owner:
        assert f"{owner.pid}\n" == owner.stdout.readline()
        told = f"in use by process {owner.pid} on {os.uname().nodename}; wait for it"
        with pytest.raises(RunError, match=told):
            RunDirectory.open(tmp_path, "resume", PLAIN)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        with RunDirectory.open(tmp_path, "resume", PLAIN) as run:
            assert run.resumed


def test_a_forked_worker_does_not_keep_the_folder(tmp_path: Path) -> None:
    """A loader's worker may outlive its killed parent for a while."""
    with start(tmp_path, "with a worker") as owner:
        worker = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        os.kill(worker, 0)  # it lives
        RunDirectory.open(tmp_path, "resume", PLAIN).close()
        os.kill(worker, signal.SIGKILL)


def test_an_owner_without_a_name_is_still_an_owner(tmp_path: Path) -> None:
    """It may not have written its name yet."""
    with RunDirectory.open(tmp_path, "new", PLAIN):
        (tmp_path / ".lock").write_text("")
        with pytest.raises(RunError, match="in use by another process"):
            RunDirectory.open(tmp_path, "resume", PLAIN)


def test_a_folder_that_cannot_be_written_is_found_before_the_first_step(
    tmp_path: Path,
) -> None:
    """No permission, a full disk, a file in the way: path and reason are named."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunError, match="file/run cannot be written: .* not a folder"):
        RunDirectory.open(tmp_path / "file" / "run", "new", PLAIN)
    with without_permission(tmp_path), pytest.raises(RunError, match="no permission"):
        RunDirectory.open(tmp_path / "run", "new", PLAIN)
    with file_size_limit(1), pytest.raises(RunError, match="ulimit"):
        RunDirectory.open(tmp_path / "run", "new", PLAIN)


def test_what_a_dead_process_left_is_swept(tmp_path: Path) -> None:
    """Half a run.json does not pile up."""
    begin(tmp_path)
    (tmp_path / ".run.json.0123abcd.tmp").write_bytes(b"{")
    RunDirectory.open(tmp_path, "resume", PLAIN).close()

    assert [".lock", "run.json"] == names(tmp_path)


def test_the_record_is_strict_json(tmp_path: Path) -> None:
    """Any parser reads it."""
    run_id = begin(tmp_path)
    told = json.loads((tmp_path / "run.json").read_text())

    assert (run_id, 256) == (told["run_id"], told["config"]["model"]["d_model"])
