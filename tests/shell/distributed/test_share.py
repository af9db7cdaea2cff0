"""The data of a run on its lane."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speedtronic.errors import Denied, Unavailable
from speedtronic.pure.config import Config
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.data import open_data
from speedtronic.shell.data.travel import is_pushed
from speedtronic.shell.distributed import share
from speedtronic.shell.distributed.share import share_data
from speedtronic.shell.lanes.counted import CountedLane
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.shell.paths import token_folder


class Failing(MemoryLane):
    """A lane whose commits raise these, one after the other, before they work."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    def commit(self, *args: Any, **kwargs: Any) -> str:
        """Raise what is next, if anything is left."""
        if self.errors:
            raise self.errors.pop(0)
        return super().commit(*args, **kwargs)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The seconds that were waited, without waiting."""
    taken: list[float] = []
    monkeypatch.setattr(share.time, "sleep", taken.append)
    yield taken


def config(folder: Path, **data: Any) -> Config:
    """Of a run on a text; its data was opened."""
    (folder / "a.txt").write_text("some text " * 20)
    raw = {
        "run": {"output_dir": str(folder / "runs")},
        "data": {"text_path": str(folder / "a.txt"), "block_size": 4, **data},
        "distributed": {"retry_attempts": 3, "retry_initial": 8.0},
    }
    made = config_from_dict(raw)
    open_data(made, directory=token_folder(made)).close()
    return made


def test_the_data_is_sent_and_told(tmp_path: Path) -> None:
    """Once: who begins again finds it there."""
    lane = CountedLane(MemoryLane())
    (told,) = share_data(config(tmp_path), lane, "a")
    sent = lane.commits

    assert "data.store" == told.field
    assert is_pushed(lane, told.fingerprint, str(lane.head()))
    assert (told,) == share_data(config(tmp_path), lane, "a")
    assert sent == lane.commits > 0


def test_what_is_not_to_be_shared_is_only_told(tmp_path: Path) -> None:
    """Somebody may send it later."""
    lane = MemoryLane()
    (told,) = share_data(config(tmp_path, share=False), CountedLane(lane), "a")

    assert "data.store" == told.field
    assert lane.head() is None


def test_a_lane_that_fails_now_and_then_is_tried_again(
    tmp_path: Path, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """Longer each time, or as long as it says."""
    caplog.set_level(logging.INFO)
    rationed = Unavailable("rationed", retry_after_s=99.0)
    lane = CountedLane(Failing(Unavailable("a"), Unavailable("b"), rationed))
    (told,) = share_data(config(tmp_path), lane, "a")

    assert is_pushed(lane, told.fingerprint, str(lane.head()))
    first, second, third = waits
    assert 4 <= first <= 8 <= second <= 16 and 99 == third
    assert "rationed; again in 99 s" in caplog.text


def test_a_lane_that_fails_for_ever_is_given_up(
    tmp_path: Path, waits: list[float]
) -> None:
    """After as many attempts as the config says; what is forbidden, at once."""
    lane = CountedLane(Failing(*(Unavailable(str(n)) for n in range(9))))
    with pytest.raises(Unavailable, match="2"):
        share_data(config(tmp_path), lane, "a")
    assert 2 == len(waits)
    with pytest.raises(Denied):
        share_data(config(tmp_path), CountedLane(Failing(Denied("no"))), "a")
    assert 2 == len(waits)
