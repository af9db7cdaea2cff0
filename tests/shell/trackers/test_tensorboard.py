"""TensorBoard's own reader sees each step once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def read(folder: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder / "tensorboard"))
    accumulator.Reload()
    return accumulator


def losses(folder: Path) -> dict[int, float]:
    """Loss by step; a step that stands twice fails."""
    events = read(folder).Scalars("train/loss")
    assert len({event.step for event in events}) == len(events), events
    return {event.step: event.value for event in events}


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "delivered"])
def test_each_step_is_shown_once_after_a_resume(
    kill: bool, attempt: Callable[..., str], tmp_path: Path
) -> None:
    """Logged to 8, resumed from 5: 1 to 5 of the first, 6 to 10 of the second."""
    said = attempt("tensorboard", 0, 8, kill=kill)
    said += attempt("tensorboard", 5, 10)
    found = losses(tmp_path / "run")

    assert [11.0, 12.0, 13.0, 15.0, *range(26, 31)] == [
        found[step] for step in sorted(found) if step != 4
    ]
    assert found[4] != found[4]
    assert "" == said


def test_the_config_is_there_without_its_secrets(
    attempt: Callable[..., str], tmp_path: Path
) -> None:
    """The config is shown as text, and a secret stands in no file of the run."""
    attempt("tensorboard", 0, 1)
    (event,) = read(tmp_path / "run").Tensors("config/text_summary")
    files = [f.read_bytes() for f in (tmp_path / "run").rglob("*") if f.is_file()]

    assert b'"lr": 0.001' in event.tensor_proto.string_val[0]
    assert files and not any(b"very-secret-text" in data for data in files)
