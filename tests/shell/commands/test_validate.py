"""``speedtronic validate``, with everything it looks at."""

import json
from pathlib import Path

import pytest

from speedtronic.__main__ import main

TINY = """
run: {name: tiny, max_steps: 3, device: cpu}
model: {n_layer: 1, d_model: 16, n_head: 2, max_seq_len: 8, vocab_size: 32}
data: {num_tokens: 500}
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(TINY)


def test_a_good_config_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """In full form, with what the command line changed."""
    command = ["validate", "--config", "c.yaml", "--set", "seed=7", "--json"]
    assert 0 == main(command)
    told = json.loads(capsys.readouterr().out)

    assert told["ok"] is True
    assert (7, "tiny") == (told["config"]["run"]["seed"], told["config"]["run"]["name"])


def test_looking_makes_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is validated first can be trained after."""
    assert 0 == main(["validate", "--config", "c.yaml"])
    assert [Path("c.yaml")] == [p for p in Path().iterdir() if p.name != "runs"]
    assert not Path("runs/tiny").exists()


def test_problems_beyond_the_syntax_are_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The config is not printed then."""
    changes = ["--set", "data.text_path=none.txt", "--set", "run.device=cuda:99"]
    assert 2 == main(["validate", "--config", "c.yaml", *changes])
    shown = capsys.readouterr()

    assert "" == shown.out
    assert 2 == len(shown.err.splitlines())
    assert 0 == main(["validate", "--config", "c.yaml", "--syntax-only", *changes])


def test_advice_is_told_beside_the_config(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, so that stdout is a config; as part of the JSON object."""
    look = ["--set", "shape_validation.warn_on_cpu=true"]
    assert 0 == main(["validate", "--config", "c.yaml", *look])
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert lines[0].startswith("advice: model.n_head: head width 8 is no multiple of")
    assert "advice" not in shown.out

    assert 0 == main(["validate", "--config", "c.yaml", *look, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [f"advice: {line}" for line in told["advice"]] == lines
    assert 0 == main(["validate", "--config", "c.yaml"])
    assert "" == capsys.readouterr().err


def test_commits_to_the_hub_are_advice(capsys: pytest.CaptureFixture[str]) -> None:
    """By the step that is given, or that a run here took, or what would do."""
    hub = ["enabled=true", "role=worker", "lane=hub:me/run", "inner_steps=100"]
    more = [word for field in hub for word in ("--set", f"distributed.{field}")]
    command = ["validate", "--config", "c.yaml", *more]
    assert 0 == main(command)
    assert "is not measured here; speedtronic plan" in capsys.readouterr().err
    assert 0 == main([*command, "--step-seconds", "2"])
    assert (
        "advice: distributed.lane: a step takes 2 s (given): 128 commits an hour"
        in (capsys.readouterr().err)
    )
    assert 0 == main(["train", "--config", "c.yaml", "--quiet"])
    capsys.readouterr()
    assert 0 == main(command)
    assert "s (by the metrics of the run): 2 nodes" in capsys.readouterr().err
    assert 2 == main([*command, "--step-seconds", "0"])
    assert "error: --step-seconds: expected a number above 0" in (
        capsys.readouterr().err
    )


def test_the_starter_config_trains_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """init, validate, train: three commands and no editor."""
    assert 0 == main(["init", "--path", "new.yaml"])
    assert 0 == main(["validate", "--config", "new.yaml"])
    less = ["--set", "data.num_tokens=3000", "--set", "run.threads=1"]
    assert 0 == main(["train", "--config", "new.yaml", "--max-steps", "2", *less])
