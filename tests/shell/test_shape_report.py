"""Shapes as a run tells them."""

import logging
from pathlib import Path
from typing import Any

import pytest

from speedtronic.shell.config import config_from_dict
from speedtronic.shell.metrics import read_log
from speedtronic.shell.train import train


def events(folder: Path, resume: str | None = None, **section: Any) -> list[Any]:
    """What a run of odd shapes tells of them."""
    config = config_from_dict(
        {
            "run": {
                "name": "r",
                "max_steps": 1 if resume is None else 2,
                "output_dir": str(folder),
            },
            "model": {"max_seq_len": 9, "n_layer": 1, "n_head": 3, "d_model": 12},
            "shape_validation": {"alignment": 4, **section},
        }
    )
    result = train(config, resume=resume)
    lines = read_log(result.run_directory / "metrics.jsonl")
    return [line for line in lines if line["event"].startswith("shape_")]


def test_shapes_are_told_at_the_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the metrics and in the log: one profile, and a warning for each advice."""
    caplog.set_level(logging.INFO)
    profile, *warnings = events(tmp_path, warn_on_cpu=True)

    assert ("shape_profile", 0, "cpu", "fp32", 4) == tuple(
        profile[name] for name in ("event", "step", "device", "precision", "alignment")
    )
    assert (12, 9) == (profile["shapes"]["width"], profile["shapes"]["rows"])
    assert {"model.max_seq_len", "model.d_ff"} <= {w["field"] for w in warnings}
    assert {"shape_warning"} == {warning["event"] for warning in warnings}
    told = [r for r in caplog.records if r.message.startswith("shapes: ")]
    assert [logging.INFO, *[logging.WARNING] * len(warnings)] == [
        record.levelno for record in told
    ]


def test_a_resumed_run_does_not_say_it_again(tmp_path: Path) -> None:
    """Once is enough; the lines of the first attempt stay."""
    first = events(tmp_path, warn_on_cpu=True)

    assert first == events(tmp_path, resume="auto", warn_on_cpu=True)


def test_a_cpu_gets_no_warning_unasked(tmp_path: Path) -> None:
    """As in 2.0, where the profile was told all the same."""
    (profile,) = events(tmp_path)

    assert 1 == profile["alignment"]


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    """Then there is not a word of it."""
    assert [] == events(tmp_path, enabled=False, warn_on_cpu=True)
