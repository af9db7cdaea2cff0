"""``speedtronic replay``."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shell.distributed.tampering import (
    ANCHOR,
    HEAD,
    content,
    deltas,
    flipped,
    kept,
    manifest,
)

from speedtronic.__main__ import main
from speedtronic.pure.round import names
from speedtronic.shell import blobs
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


def test_every_round_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """And the whole has one."""
    assert 0 == main(["replay", "dir:run"])
    out, err = capsys.readouterr()
    counted = sum(len(manifest(round).accepted) for round in range(5, 10))

    first, *rounds, closing = out.splitlines()
    assert "round 4: the anchor to begin at" == first
    starts = [f"round {n}: verified, {len(manifest(n).accepted)} delta" for n in (5, 6)]
    assert [
        line[: len(start)] for line, start in zip(rounds, starts, strict=False)
    ] == (starts)
    assert 5 == len(rounds)
    assert closing.startswith(f"5 of 5 rounds verified, {counted} deltas, ")
    assert "" == err


def test_a_range_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Both ends belong to it."""
    assert 0 == main(["replay", "dir:run", "--from", "9", "--to", "9"])
    assert [8, 9] == [
        int(line.split(":")[0].split()[1])
        for line in capsys.readouterr().out.splitlines()[:-1]
    ]


def test_a_mismatch_is_code_1_with_round_and_tensor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the error stream; the summary names the first."""
    put(flipped(kept(ANCHOR, names.MOMENTUM)))
    assert 1 == main(["replay", "dir:run"])
    out, err = capsys.readouterr()

    assert err.startswith("error: round 8: rounds/8/outer.safetensors has other bytes")
    assert "tensor 'w': 1 of 40000 elements, by at most" in err
    assert out.splitlines()[-1].endswith("; the first that did not is round 8")
    assert out.splitlines()[-1].startswith("4 of 5 rounds verified")


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """With everything that is known of each round."""
    assert 0 == main(["replay", "dir:run", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (True, 0, []) == (told["ok"], told["exit_code"], told["problems"])
    assert [4, 5, 6, 7, 8, 9] == [report["round"] for report in told["rounds"]]
    put(flipped(deltas(6)[0]))
    assert 1 == main(["replay", "dir:run", "--json"])
    told = json.loads(capsys.readouterr().out)

    assert (False, 1, 3) == (told["ok"], told["exit_code"], len(told["problems"]))
    assert told["problems"][0].startswith("round 6: delta")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["dir:nothing"], "no lane there"),
        (["typo"], "expected dir:PATH"),
        (["memory:"], "holds no run"),
        (["dir:run", "--from", "2"], "round 2 is not kept for replay; rounds 5 to 9"),
        (["dir:run", "--to", "12"], "round 12 is not there yet"),
        (["dir:run", "--from", "x"], "invalid int value: 'x'"),
        (["dir:run", "--write", "run"], "--write: run exists; give a new name"),
        (["dir:run", "--write", "no/x"], "--write: no is not a folder"),
    ],
)
def test_wrong_input_is_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that says what is wrong."""
    assert 2 == main(["replay", *arguments])
    assert told in capsys.readouterr().err.splitlines()[-1]


def test_the_model_is_written_as_it_was_published() -> None:
    """The same bytes, so the same sum."""
    assert 0 == main(["replay", "dir:run", "--write", "model.safetensors"])
    assert content()[names.WEIGHTS] == Path("model.safetensors").read_bytes()


def test_the_model_of_an_earlier_round_is_written() -> None:
    """Of the last one that was computed."""
    assert 0 == main(["replay", "dir:run", "--to", "8", "--write", "m"])
    assert content()[kept(8, names.WEIGHTS)] == Path("m").read_bytes()
    assert 0 == main(["replay", "dir:run", "--to", "7", "--write", "n"])
    one, other = (blobs.read(Path(name)) for name in "mn")
    assert one.keys() == other.keys()
    assert not torch.equal(one["model.w"], other["model.w"])


def test_a_model_that_does_not_verify_is_not_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is left of it."""
    put(flipped(deltas(6)[0]))
    before = sorted(os.listdir())
    assert 1 == main(["replay", "dir:run", "--write", "m"])

    assert before == sorted(os.listdir())
    assert "m is not written: not every round verified" in capsys.readouterr().err


def test_a_file_that_appears_meanwhile_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay takes time."""
    from speedtronic.shell.distributed import files

    write = files.write_weights

    def slowly(*arguments: Any) -> Any:
        Path("m").write_text("mine")
        return write(*arguments)

    monkeypatch.setattr(files, "write_weights", slowly)
    assert 2 == main(["replay", "dir:run", "--write", "m"])

    assert "mine" == Path("m").read_text()
    assert ["m", "run"] == sorted(os.listdir())


def test_a_bar_shows_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the anchor to the last one."""
    seen: list[Any] = []

    class Bar:
        def __init__(self, last: int, done: int, **settings: Any) -> None:
            seen.append((last, done, settings))

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *error: object) -> None:
            seen.append("closed")

        def advance(self, step: int) -> None:
            seen.append(step)

    monkeypatch.setattr("speedtronic.shell.progress.ProgressBar", Bar)
    assert 0 == main(["replay", "dir:run", "--from", str(HEAD)])

    assert [(9, 8, {"label": "replay", "enabled": True}), 8, 9, "closed"] == seen
