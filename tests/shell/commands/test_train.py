"""``speedtronic train``, as its users start it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from speedtronic.__main__ import main

TINY = """
run: {name: tiny, max_steps: 3, device: cpu, threads: 1}
model: {n_layer: 1, d_model: 16, n_head: 2, max_seq_len: 8, vocab_size: 32}
data: {num_tokens: 500, micro_batch_size: 2, target_batch_size: 2}
"""
LINE = re.compile(
    r"completed steps=3 samples=6 tokens=48 loss=\d+\.\d+ validation_loss=\d+\.\d+\n"
)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(TINY)


def test_a_run_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The only line on stdout; what happens meanwhile goes to stderr."""
    assert 0 == main(["train", "--config", "c.yaml"])
    shown = capsys.readouterr()

    assert LINE.fullmatch(shown.out)
    assert "step 1/3" in shown.err


def test_a_quiet_run_says_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings would still be shown."""
    assert 0 == main(["train", "--config", "c.yaml", "--quiet"])
    shown = capsys.readouterr()

    assert LINE.fullmatch(shown.out)
    assert "" == shown.err


TALKATIVE = """
class Hook:
    def on_start(self, info): print("hello")
    def on_record(self, record): ...
    def on_end(self, summary, error): ...
    def close(self): ...
"""


def test_what_a_hook_prints_is_not_mixed_into_the_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The JSON object is alone on stdout."""
    Path("talkative.py").write_text(TALKATIVE)
    hook = "logging.hooks=['talkative:Hook']"
    assert 0 == main(["train", "--config", "c.yaml", "--json", "--set", hook])
    shown = capsys.readouterr()

    assert json.loads(shown.out)["ok"]
    assert "hello" in shown.err


def test_a_run_answers_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object, with the numbers of the last line."""
    assert 0 == main(["train", "--config", "c.yaml", "--json"])
    told = json.loads(capsys.readouterr().out)

    assert (True, 0, 3, 6, 48) == tuple(
        told[name] for name in ("ok", "exit_code", "steps", "samples", "tokens")
    )
    assert "runs/tiny" == told["run_directory"]
    assert told["loss"] > 0 and told["validation_loss"] > 0


def test_the_command_line_wins_over_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Own options over --set over the file."""
    changed = ["--set", "run.max_steps=5", "--set", "seed=7", "--max-steps", "2"]
    command = ["train", "--config", "c.yaml", "--output-dir", "out", "--json"]
    assert 0 == main([*command, *changed])
    told = json.loads(capsys.readouterr().out)
    record = json.loads(Path("out/tiny/run.json").read_text())

    assert (2, "out/tiny") == (told["steps"], told["run_directory"])
    assert 7 == record["config"]["run"]["seed"]


def test_what_is_not_given_leaves_the_file_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The run's config is the file's."""
    assert 0 == main(["train", "--config", "c.yaml", "--quiet"])
    run = json.loads(Path("runs/tiny/run.json").read_text())["config"]["run"]

    assert ("cpu", 3, "runs") == (run["device"], run["max_steps"], run["output_dir"])


def test_a_second_run_needs_a_decision(capsys: pytest.CaptureFixture[str]) -> None:
    """Refused, resumed, or overwritten: never mixed."""
    command = ["train", "--config", "c.yaml", "--quiet"]
    assert 0 == main(command)
    assert 2 == main(command)
    assert "holds a run already" in capsys.readouterr().err
    assert 0 == main([*command, "--resume"])
    assert 0 == main([*command, "--resume", "auto", "--max-steps", "4"])
    assert capsys.readouterr().out.endswith("validation_loss=null\n") is False
    assert 0 == main([*command, "--overwrite"])
    assert LINE.fullmatch(capsys.readouterr().out)
    assert 2 == main([*command, "--overwrite", "--resume"])
    assert "expected one of them, found both" in capsys.readouterr().err


def test_a_named_checkpoint_is_where_it_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``--resume PATH`` takes that one."""
    command = ["train", "--config", "c.yaml", "--set", "checkpoint.every_steps=1"]
    assert 0 == main(command)
    first = min(Path("runs/tiny/checkpoints").glob("step-*"))
    capsys.readouterr()

    assert 0 == main([*command, "--max-steps", "4", "--resume", str(first)])
    assert f"resumed from {first}" in capsys.readouterr().err
    assert 2 == main([*command, "--resume", "nowhere"])
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("run.device=cuda:99", "run.device: 'cuda:99' is not on this machine"),
        ("run.max_steps=0", "run.max_steps: expected a number above 0, found 0"),
        ("data.text_path=none.txt", "none.txt does not exist"),
        ("optimizer.lr=-1", "optimizer.lr: expected a number above 0"),
        ("model={name: nobody}", "model.name: "),
        ("model={name: nobody:here}", "model.name: "),
        ("run.output_dir=/dev/null", "/dev/null"),
    ],
)
def test_what_the_user_can_mend_is_code_2(
    change: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, before the first step."""
    if change.startswith("model="):
        Path("c.yaml").write_text("run: {name: tiny}")
    assert 2 == main(["train", "--config", "c.yaml", "--quiet", "--set", change])
    (line,) = capsys.readouterr().err.splitlines()

    assert line.startswith("error: ") and told in line


def test_a_run_that_fails_is_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    """A learning rate that makes the loss infinite stops the run with a reason."""
    changes = ["optimizer.lr=1e30", "scheduler.warmup_steps=0", "run.max_steps=60"]
    given = [word for change in changes for word in ("--set", change)]

    assert 1 == main(["train", "--config", "c.yaml", "--quiet", *given])
    shown = capsys.readouterr()
    assert "" == shown.out
    assert shown.err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_and_says_so(number: signal.Signals) -> None:
    """130 and 143; the run goes on from where it was."""
    command = [sys.executable, "-m", "speedtronic", "train", "--config", "c.yaml"]
    process = subprocess.Popen(
        [*command, "--max-steps", "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 3/"):
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert 128 + number == process.returncode
    assert out.startswith("interrupted steps=")
    assert "Traceback" not in err
    steps = int(re.findall(r"steps=(\d+)", out)[0])
    assert Path(f"runs/tiny/checkpoints/step-{steps:08}").is_dir()
