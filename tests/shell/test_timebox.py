"""Runs bounded in minutes."""

from pathlib import Path

import torch

from speedtronic.shell.timebox import TimeBox, recorded

CPU = torch.device("cpu")


def test_each_step_reads_and_records_its_share(tmp_path: Path) -> None:
    """Six seconds of a minute are a tenth; the last step takes all."""
    seconds = iter([0.0, 6.0, 30.0, 61.0])
    box = TimeBox(1.0, tmp_path / "p", 0, clock=lambda: next(seconds))
    shares = [float(box.read(CPU)) for _ in range(3)]
    box.close()

    assert torch.tensor([0.1, 0.5, 1.0]).tolist() == shares == recorded(tmp_path / "p")
    assert box.over


def test_a_resumed_run_has_the_rest_of_its_time(tmp_path: Path) -> None:
    """The record goes on after the checkpoint's step; time between is not counted."""
    seconds = iter([0.0, 15.0, 45.0])
    box = TimeBox(1.0, tmp_path / "p", 0, clock=lambda: next(seconds))
    box.read(CPU)
    spent_s = box.spent_s
    box.read(CPU)
    box.close()
    seconds = iter([1000.0, 1015.0])
    again = TimeBox(1.0, tmp_path / "p", 1, spent_s, clock=lambda: next(seconds))

    assert 0.5 == float(again.read(CPU))
    again.close()
    assert [0.25, 0.5] == recorded(tmp_path / "p")


def test_more_minutes_give_a_run_more_time(tmp_path: Path) -> None:
    """The time that was spent is a smaller share of them."""
    seconds = iter([0.0, 61.0])
    box = TimeBox(1.0, tmp_path / "p", 0, clock=lambda: next(seconds))
    box.read(CPU)
    box.close()
    seconds = iter([1000.0, 1030.0])
    more = TimeBox(2.0, tmp_path / "p", 1, box.spent_s, clock=lambda: next(seconds))

    assert not more.over
    assert 0.75 == float(more.read(CPU))
    more.close()
