"""Trained models on disk."""

from pathlib import Path

import pytest
from tests.shell.saved_runs import save_run

from speedtronic.errors import RunError
from speedtronic.pure.config import Config, Model
from speedtronic.pure.transformer import Transformer
from speedtronic.shell.saved import find_saved

SMALL = {"vocab_size": 9, "max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 8}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two checkpoints."""
    config = Config(model=Model(**SMALL))
    return save_run(tmp_path / "run", config, Transformer(**SMALL), steps=2)


def test_the_newest_checkpoint_of_a_run(run: Path) -> None:
    """With the config of the run."""
    found = find_saved(run)

    assert ("step-00000002", ()) == (found.path.name, found.notes)
    assert Config(model=Model(**SMALL)) == found.config


def test_a_damaged_one_is_passed_over(run: Path) -> None:
    """And what was wrong with it is said."""
    file = find_saved(run).path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])

    found = find_saved(run)
    assert "step-00000001" == found.path.name
    assert "step-00000002" in found.notes[0]


def test_a_checkpoint_by_name(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of them, also by a relative path."""
    first = run / "checkpoints" / "step-00000001"

    assert first == find_saved(first).path
    monkeypatch.chdir(first)
    assert Config(model=Model(**SMALL)) == find_saved(Path(".")).config


def test_a_run_that_saved_nothing(run: Path) -> None:
    """All reasons are given."""
    for manifest in run.glob("checkpoints/*/manifest.json"):
        manifest.unlink()

    with pytest.raises(RunError) as caught:
        find_saved(run)
    assert 3 == len(caught.value.problems)


def test_what_is_no_run(run: Path, tmp_path: Path) -> None:
    """A folder without a run, a missing folder, a damaged record."""
    for path in (tmp_path, tmp_path / "missing", run / "missing"):
        with pytest.raises(RunError, match="expected a run folder or a checkpoint"):
            find_saved(path)
    with pytest.raises(RunError, match="expected a checkpoint or its run"):
        find_saved(run / "checkpoints")
    (run / "run.json").write_text("{}")
    with pytest.raises(RunError, match="is not a run's record"):
        find_saved(run)
