"""The lane that a config names."""

import threading
from pathlib import Path

import attrs
import pytest

from speedtronic.errors import ConfigError, Unavailable
from speedtronic.pure.config import Config, Distributed
from speedtronic.pure.config.run import Checkpoint
from speedtronic.shell.distributed.lane import hub_options, open_lane, patiently


def of(**section: object) -> Config:
    """A config with this distributed section."""
    return Config(distributed=Distributed(enabled=True, **section))  # type: ignore[arg-type]


def test_only_a_master_makes_a_folder(tmp_path: Path) -> None:
    """A disk that is not mounted must not look like a new run."""
    text, stop = f"dir:{tmp_path / 'lane'}", threading.Event()
    with pytest.raises(Unavailable):
        open_lane(of(lane=text, role="auto"), stop, member=False)
    assert None is open_lane(of(lane=text, role="master"), stop, member=False).head()
    assert None is open_lane(of(lane=text, role="auto"), stop, member=False).head()


def test_a_folder_whose_disk_is_not_there_is_not_made(tmp_path: Path) -> None:
    """Nor one that a member of a run had before."""
    stop = threading.Event()
    with pytest.raises(Unavailable, match="is not there; mount its disk or make it"):
        open_lane(of(lane=f"dir:{tmp_path}/a/b", role="master"), stop, member=False)
    with pytest.raises(Unavailable):
        open_lane(of(lane=f"dir:{tmp_path}/lane", role="master"), stop, member=True)
    assert [] == list(tmp_path.iterdir())


def test_a_lane_that_is_none_is_told() -> None:
    """With the forms that there are."""
    with pytest.raises(ConfigError, match="dir:PATH, hub:OWNER/NAME"):
        open_lane(of(lane="s3:x"), threading.Event(), member=False)


def burst(config: Config, *, checkpoints: bool = False) -> int:
    """Commits that may come at once: an eighth of those in an hour."""
    stop = threading.Event()
    limiter = hub_options(config, stop, checkpoints=checkpoints).limiter
    assert limiter is not None
    count = 0
    while not limiter.take():
        count += 1
    return count


def test_checkpoints_on_the_hub_take_a_quarter_of_a_node_s_commits() -> None:
    """Alone, a run has them all."""
    both = attrs.evolve(
        of(lane="hub:a/b", role="worker", collaborators=("x", "y")),
        checkpoint=Checkpoint(lane="hub:a/c"),
    )
    alone = Config(checkpoint=Checkpoint(lane="hub:a/c"))

    assert (3, 1) == (burst(both), burst(both, checkpoints=True))
    assert 16 == burst(alone, checkpoints=True)


def test_nodes_share_the_hub_s_commits() -> None:
    """One who may lead has two parts."""
    worker = of(lane="hub:a/b", role="worker", collaborators=("x", "y"))
    leader = of(lane="hub:a/b", role="auto", collaborators=("x", "y"))

    assert (4, 8) == (burst(worker), burst(leader))  # of 128 / 4, and twice that


class Sleepless(threading.Event):
    """Remembers how long it was waited for."""

    waited = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.waited += timeout or 0.0
        return False


def test_a_hub_that_does_not_answer_is_asked_for_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With one line, and then its error; once it answers, all is well."""
    stop, left = Sleepless(), [3]

    def call() -> str:
        if left[0]:
            left[0] -= 1
            raise Unavailable("no route")
        return "answered"

    assert "answered" == patiently(call, of(lane="hub:a/b"), stop)
    assert 1 == caplog.text.count("no route; trying again for 60 s")
    left[0] = 10**9
    with pytest.raises(Unavailable):
        patiently(call, of(lane="hub:a/b"), stop)
    assert 60 <= stop.waited < 200


def test_a_folder_that_is_not_there_is_asked_for_once() -> None:
    """It will not come by itself."""
    calls = []

    def call() -> None:
        calls.append(1)
        raise Unavailable("no such folder")

    with pytest.raises(Unavailable):
        patiently(call, of(lane="dir:x"), Sleepless())
    assert [1] == calls
