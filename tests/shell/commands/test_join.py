"""``speedtronic join``, from a folder with nothing in it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.shell.distributed.small_run import begin, plain

from speedtronic.__main__ import main
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.shell.config import config_from_dict, to_yaml
from speedtronic.shell.lanes import parse_lane
from speedtronic.testing.hub import HubEmulator


def rounds(place: str) -> int:
    """How many the run on a lane has."""
    lane = parse_lane(place)
    return manifests.parse(lane.read(names.MANIFEST, str(lane.head()))).round


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the one who joins."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_one_command_takes_part(
    tmp_path: Path, empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It fetches, trains, delivers; given again it goes on."""
    begin(tmp_path, f"dir:{tmp_path / 'lane'}")
    before = rounds("dir:../lane")
    mine = ["--set", "distributed.node_id=second", "--set", "run.threads=1"]
    capsys.readouterr()
    assert 0 == main(["join", "dir:../lane", *mine, "--max-steps", "2", "--json"])
    shown = capsys.readouterr()
    told = json.loads(shown.out)

    assert (True, 2) == (told["ok"], told["steps"])
    assert told["validation_loss"] is not None
    assert shown.err.startswith("joins run ")
    assert before < (after := rounds("dir:../lane"))
    assert ["runs"] == os.listdir(empty)

    assert 0 == main(["join", "dir:../lane", *mine, "--quiet"])
    assert capsys.readouterr().out.startswith("completed steps=4 ")
    assert after < rounds("dir:../lane")


def test_a_mistake_is_one_line(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is left behind."""
    assert 2 == main(["join", "dir:nowhere"])
    assert 1 == len(capsys.readouterr().err.splitlines())
    assert [] == os.listdir(empty)


def test_a_field_of_the_run_cannot_be_changed(
    tmp_path: Path, empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says what the run has."""
    begin(tmp_path, f"dir:{tmp_path / 'lane'}")
    capsys.readouterr()
    assert 2 == main(["join", "dir:../lane", "--quiet", "--set", "optimizer.lr=1"])
    (line,) = capsys.readouterr().err.splitlines()

    assert line.startswith("error: distributed.lane: optimizer.lr: the run has 0.0003")


@pytest.mark.slow
def test_the_same_over_the_hub(tmp_path: Path, empty: Path) -> None:
    """Two machines that have nothing in common but a repository, and a word in time."""
    config = config_from_dict(plain(tmp_path, "hub:owner/run"))
    (tmp_path / "first.yaml").write_text(to_yaml(config))
    with HubEmulator() as hub:
        environment = {
            **os.environ,
            **hub.environment,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HOME": str(empty),
        }

        def run(folder: Path, *arguments: str) -> str:
            done = subprocess.run(
                [sys.executable, "-m", "speedtronic", *arguments],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
            )
            assert 0 == done.returncode, done.stderr
            return done.stdout

        run(tmp_path, "train", "--config", "first.yaml", "--quiet")
        text = tmp_path / "text.txt"
        text.unlink()
        key = run(empty, "key", "new", "--node", "second").strip()
        asked = ["hub:owner/run", "second", key, "--role", "master"]
        assert "second joins the roster" in run(tmp_path, "roster", "add", *asked)
        second = ["--set", "distributed.node_id=second", "--set", "run.threads=1"]
        shown = run(empty, "join", "hub:owner/run", *second, "--quiet")
        there = manifests.parse(hub.repo("owner/run").read(names.MANIFEST))

    assert shown.startswith("completed steps=4 ")
    assert {"first", "second"} == {r.node for r in there.ledger}
    assert "second" == there.lease.node
