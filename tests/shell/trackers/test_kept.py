"""What trackers remember between attempts."""

from pathlib import Path

import pytest

from speedtronic.shell.hooks import RunInfo
from speedtronic.shell.trackers.kept import deliver, delivered, run_id


def info(folder: Path, resumed_from: int | None) -> RunInfo:
    return RunInfo(
        run="r",
        node="n",
        project="p",
        folder=folder,
        config={},
        resumed_from=resumed_from,
    )


def test_an_id_survives_a_resume_and_no_restart(tmp_path: Path) -> None:
    """A new run in the same folder is another run."""
    first = run_id(info(tmp_path, None), "wandb")

    assert first == run_id(info(tmp_path, 5), "wandb")
    assert first != run_id(info(tmp_path, 5), "trackio")
    assert first != run_id(info(tmp_path, None), "wandb")


def test_a_lost_id_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run shows up as a new one, and the log says why."""
    new = run_id(info(tmp_path, 5), "wandb")

    assert "wandb/speedtronic.id: not found" in caplog.text
    assert new == run_id(info(tmp_path, 6), "wandb")


@pytest.mark.parametrize(
    ("text", "resumed_from", "step"),
    [("8", 5, 5), ("3", 5, 3), ("8", None, 0), ("", 5, 0), ("x", 5, 0)],
)
def test_delivered_is_never_past_the_checkpoint(
    text: str, resumed_from: int | None, step: int, tmp_path: Path
) -> None:
    """A file that a power failure emptied means nothing was delivered."""
    deliver(info(tmp_path, None), "tensorboard", 1)
    (tmp_path / "tensorboard" / "speedtronic.step").write_text(text)

    assert step == delivered(info(tmp_path, resumed_from), "tensorboard")
