"""The one page that every run leaves."""

import json
from pathlib import Path
from typing import Any

import pytest

from speedtronic.shell.metrics import MetricLog, resume_log, start_log
from speedtronic.shell.summary import (
    RunSummary,
    closing_lines,
    fingerprint,
    summarize,
    write_summary,
)
from speedtronic.testing.records import example_record


def summary_of(log: MetricLog, **changes: Any) -> RunSummary:
    fields: dict[str, Any] = {
        "status": "completed",
        "steps": 8,
        "samples": 64,
        "tokens": 8192,
        "skipped_steps": 0,
        "wall_seconds": 75.0,
        "run": "r",
        "node": "n",
        "device": "cpu",
        "precision": "fp32",
        "config": {"optimizer": {"lr": 1e-3}},
    }
    return summarize(log, **(fields | changes))


def train(path: Path, losses: list[float], validation: dict[int, float]) -> MetricLog:
    with start_log(path, every=1, last_step=None) as log:
        for step, loss in enumerate(losses, start=1):
            held_out = validation.get(step)
            log.write(example_record(step, loss=loss, validation_loss=held_out))
    return log


def test_the_file_is_strict_json_with_everything(tmp_path: Path) -> None:
    """Status, counters, losses, best, versions, device, precision and the curve."""
    log = train(tmp_path / "m", [4.0, 2.0, 3.0], {1: 9.0, 2: 7.0, 3: 8.0})
    write_summary(tmp_path, summary_of(log))
    found = json.loads((tmp_path / "summary.json").read_text())

    assert "torch" in found.pop("versions")
    assert {
        "status": "completed",
        "error": None,
        "run": "r",
        "node": "n",
        "device": "cpu",
        "precision": "fp32",
        "config_fingerprint": fingerprint({"optimizer": {"lr": 1e-3}}),
        "attempts": 1,
        "steps": 8,
        "samples": 64,
        "tokens": 8192,
        "skipped_steps": 0,
        "wall_seconds": 75.0,
        "loss": {
            "last": [3, 3.0],
            "min": [2, 2.0],
            "max": [1, 4.0],
            "mean": 3.0,
            "count": 3,
            "non_finite": 0,
        },
        "validation_loss": {
            "last": [3, 8.0],
            "min": [2, 7.0],
            "max": [1, 9.0],
            "mean": 8.0,
            "count": 3,
            "non_finite": 0,
        },
        "average_validation_loss": {
            "last": None,
            "min": None,
            "max": None,
            "mean": None,
            "count": 0,
            "non_finite": 0,
        },
        "curve": [[1, 4.0], [2, 2.0], [3, 3.0]],
    } == found


def test_a_run_that_became_nan_is_strict_json_too(tmp_path: Path) -> None:
    """The last loss is null and named; NaN is never the best."""
    log = train(tmp_path / "m", [4.0, float("nan")], {2: float("nan")})
    write_summary(
        tmp_path, summary_of(log, status="failed", error=f"token hf_{'a' * 30}")
    )
    text = (tmp_path / "summary.json").read_text()
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))

    assert ("failed", "token hf_***") == (found["status"], found["error"])
    assert ([2, None], [1, 4.0], None) == (
        found["loss"]["last"],
        found["loss"]["min"],
        found["validation_loss"]["min"],
    )
    assert "NaN" == found["non_finite"]["/loss/last/1"]


def test_its_size_does_not_grow_with_the_run(tmp_path: Path) -> None:
    """Ten times the steps, no more points than the bound."""
    sizes = []
    for steps in (1_000, 4_000):
        log = train(tmp_path / str(steps), [1.5] * steps, {})
        sizes.append(len(summary_of(log).curve))

    assert all(128 <= size <= 257 for size in sizes)


def test_it_covers_all_attempts(tmp_path: Path) -> None:
    """A resumed run's summary is that of the whole run."""
    train(tmp_path / "m", [4.0, 3.0, 2.0, 1.0], {})
    with resume_log(tmp_path / "m", 2, every=1, last_step=None) as log:
        log.write(example_record(3, loss=2.5))
    summary = summary_of(log)

    assert (2, ((1, 4.0), (2, 3.0), (3, 2.5))) == (summary.attempts, summary.curve)


@pytest.mark.parametrize(
    ("losses", "validation", "lines"),
    [
        (
            [4.0, 3.0, 2.0],
            {2: 3.25},
            [
                "completed: 8 steps, 64 samples, 8192 tokens in 1:15, loss 2.0000, "
                "best validation loss 3.2500 at step 2",
                "loss  #-_",
            ],
        ),
        (
            [4.0],
            {},
            ["completed: 8 steps, 64 samples, 8192 tokens in 1:15, loss 4.0000"],
        ),
        (
            [],
            {},
            ["completed: 8 steps, 64 samples, 8192 tokens in 1:15, no loss logged"],
        ),
    ],
)
def test_the_terminal_gets_a_sentence_and_a_curve(
    losses: list[float], validation: dict[int, float], lines: list[str], tmp_path: Path
) -> None:
    """A curve needs two points."""
    assert lines == closing_lines(summary_of(train(tmp_path / "m", losses, validation)))


def test_skipped_steps_are_told_at_the_end(tmp_path: Path) -> None:
    """They learned nothing, which a finite last loss would hide."""
    summary = summary_of(train(tmp_path / "m", [4.0], {}), skipped_steps=7)

    assert closing_lines(summary)[0].endswith(", loss 4.0000, 7 steps skipped")


def test_the_fingerprint_tells_configs_apart() -> None:
    """Any changed value changes it."""
    assert fingerprint({"a": {"b": 1}}) != fingerprint({"a": {"b": 2}})
