"""``speedtronic status``."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.shell.distributed.tampering import content, flipped, kept

from speedtronic.__main__ import main
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.shell.lanes import parse_lane


@pytest.fixture(autouse=True)
def lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on the lane dir:run."""
    monkeypatch.chdir(tmp_path)
    put(content())


def put(files: dict[str, Any]) -> None:
    """Commit to the lane."""
    lane = parse_lane("dir:run", create=True)
    lane.commit(files, parent=lane.head())


def test_a_person_reads_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it stands, who takes part, what it takes, what is kept."""
    head = manifests.parse(content()[names.MANIFEST])
    assert 0 == main(["status", "dir:run"])
    out, err = capsys.readouterr()
    lines = out.splitlines()

    assert f"run {head.run}, round 9, serial {head.serial}" == lines[0]
    assert f"lineage {head.lineage}" == lines[1]
    assert f"lease held by {head.lease.node}, life {head.lease.life}, epoch 2" in out
    assert any(
        line.split() == ["node-1", "round", "9", "0", "0", "0", "0"] for line in (lines)
    )
    assert any(line.split() == ["model", "160,650"] for line in lines)
    assert "rounds that can be replayed: 5 to 9\nanchors: 4, 8\n" in out
    assert "chain of 6 manifests: verifies" == lines[-1]
    assert "" == err
    assert [] == [line for line in lines if line != line.rstrip()]


def test_a_pipe_gets_whole_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the width of a terminal would be."""
    main(["status", "dir:run"])
    wide = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "20")
    main(["status", "dir:run"])

    assert wide == capsys.readouterr().out


def test_a_narrow_terminal_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns wrap inside of the table."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout", shown)
    assert 0 == main(["status", "dir:run"])
    table = shown.getvalue().split("\n\n")[1]

    assert 40 >= max(map(len, table.splitlines()))
    assert "\x1b" not in shown.getvalue()


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """With the same facts."""
    assert 0 == main(["status", "dir:run", "--json"])
    told = json.loads(capsys.readouterr().out)

    assert (True, 0, 9) == (told["ok"], told["exit_code"], told["round"])
    assert 0.7 == told["outer"]["learning_rate"]
    assert ["node-0", "node-1", "node-2"] == [node["node"] for node in told["nodes"]]
    assert [[5, 9]] == told["replayable"]


def test_a_broken_chain_is_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    """With the round; the page is shown all the same."""
    put(flipped(kept(6)))
    assert 1 == main(["status", "dir:run"])
    out, err = capsys.readouterr()
    assert err.startswith("error: round 6: rounds/6/manifest.json")
    assert "chain of 5 manifests: does not verify" in out
    assert 1 == main(["status", "dir:run", "--json"])
    told = json.loads(capsys.readouterr().out)

    assert (False, 1) == (told["ok"], told["exit_code"])
    assert told["problems"][0].startswith("round 6:")


@pytest.mark.parametrize("lane", ["dir:nothing", "typo", "memory:"])
def test_no_run_is_code_2(lane: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake in the lane's name, most of the time."""
    assert 2 == main(["status", lane])
    assert 1 == len(capsys.readouterr().err.splitlines())


def test_looking_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on the lane nor in the folder for temporary files."""
    Path("temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", "temporary")
    head = parse_lane("dir:run").head()
    assert 0 == main(["status", "dir:run"])

    assert head == parse_lane("dir:run").head()
    assert [] == os.listdir("temporary")
