"""``speedtronic prepare`` and ``speedtronic data stats``."""

import json
from pathlib import Path

import pytest

from speedtronic.__main__ import main

CONFIG = """
model: {vocab_size: 256, max_seq_len: 8}
data: {text_path: a.txt, target_batch_size: 2}
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(CONFIG)
    Path("a.txt").write_text("hello world " * 50)


def test_prepare_makes_the_store_that_training_uses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says where; a second time it finds it."""
    assert 0 == main(["prepare", "--config", "c.yaml"])
    first = capsys.readouterr().out
    store = Path(first.split(" in ")[1].strip())

    assert store.parent == Path("runs/.tokens") and store.is_dir()
    assert first.startswith("a.txt: 600 tokens in ")
    assert 0 == main(["prepare", "--config", "c.yaml", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert {"a.txt": {"tokens": 600, "store": str(store), "pushed": None}} == told[
        "sources"
    ]


def test_a_pushed_store_is_all_that_another_machine_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The line it prints is the field to set; the text may be gone."""
    assert 0 == main(["prepare", "--config", "c.yaml", "--push", "dir:lane"])
    field = capsys.readouterr().out.split("data.store: ")[1].strip()
    Path("a.txt").unlink()
    there = ["--set", f"data.store={field}", "--set", "data.text_path=null"]
    elsewhere = ["--set", "data.cache_dir=elsewhere"]

    assert 0 == main(["data", "stats", "c.yaml", *there, *elsewhere, "--json"])
    assert 540 == json.loads(capsys.readouterr().out)["train_tokens"]


def test_made_up_data_needs_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written for it."""
    command = ["prepare", "--config", "c.yaml", "--set", "data.text_path=null"]
    assert 0 == main(command)
    assert "this data needs no token store\n" == capsys.readouterr().out
    assert 0 == main([*command, "--json"])
    assert {"ok": True, "sources": {}} == json.loads(capsys.readouterr().out)


def test_stats_count_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """As lines and as one JSON object."""
    assert 0 == main(["data", "stats", "c.yaml"])
    assert "train tokens" in capsys.readouterr().out
    assert 0 == main(["data", "stats", "c.yaml", "--json"])
    told = json.loads(capsys.readouterr().out)

    assert (True, 540, 60) == (
        told["ok"],
        told["train_tokens"],
        told["held_out_tokens"],
    )


@pytest.mark.parametrize("command", [["prepare", "--config"], ["data", "stats"]])
def test_data_that_cannot_be_used_is_code_2(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the file."""
    Path("a.txt").write_bytes(b"caf\xe9 " * 100)
    assert 2 == main([*command, "c.yaml"])
    (line,) = capsys.readouterr().err.splitlines()

    assert "a.txt is not UTF-8: byte e9 at offset 3" in line
