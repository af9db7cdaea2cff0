"""Whole runs whose disk is lost, and that go on from a lane."""

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session, constants
from tests.shell.killed_run import config, saved

from speedtronic.errors import ConfigError, RunError
from speedtronic.pure.config import Config
from speedtronic.shell import checkpoint_writer
from speedtronic.shell.checkpoint_places import lane_of
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.train import train
from speedtronic.testing.hub import HubEmulator

ROOT = Path(__file__).parents[2]
STEPS = 6
RUN = Path("runs/run")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubEmulator]:
    """One that the environment names."""
    with HubEmulator() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.endpoint)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running
        close_session()


def asked(lane: str | None = "dir:lane", **checkpoint: Any) -> Config:
    """A run with dropout, shuffling and evaluation that saves every second step."""
    plain = config("run", "fp32", STEPS)
    plain["checkpoint"] |= {"every_steps": 2, "lane": lane, **checkpoint}
    return config_from_dict(plain)


def until(step: int, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Train, but ask to stop while a step is saved."""
    real = checkpoint_writer.save

    def save(folder: Path, snapshot: Any, **how: Any) -> Path:
        if snapshot.step == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(folder, snapshot, **how)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_writer, "save", save)
        assert 143 == train(asked(**more)).exit_code


def last(folder: Path = RUN) -> dict[str, str]:
    return saved(folder)[f"step-{STEPS:08d}"]


def whole() -> dict[str, str]:
    """What a run that was never stopped has in the end; it leaves no other trace."""
    train(asked(lane=None))
    bits = last()
    shutil.rmtree(RUN)
    return bits


def test_a_run_goes_on_from_the_lane_with_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its folder is gone; ``--resume LANE`` fetches it and continues the same run."""
    expected = whole()
    until(2, monkeypatch)
    shutil.rmtree("runs")
    with caplog.at_level(logging.INFO):
        told = train(asked(), resume="dir:lane")

    assert (STEPS, expected) == (told.steps, last())
    assert 1 == sum("from dir:lane: nothing is here" in m for m in caplog.messages)


def test_the_lane_s_is_used_if_the_own_is_older(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Plain ``--resume`` with a configured lane; a newer one of one's own is kept."""
    until(2, monkeypatch)
    shutil.copytree("runs", "older")
    expected = train(asked(), resume="auto").steps, last()
    shutil.rmtree("runs")
    shutil.copytree("older", "runs")
    with caplog.at_level(logging.INFO):
        told = train(asked(), resume="auto")

    assert expected == (told.steps, last())
    assert 1 == sum(f"took step {STEPS} from dir:" in m for m in caplog.messages)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        train(asked(), resume="auto")
    assert not any("took step" in message for message in caplog.messages)


def test_a_torn_file_on_the_lane_costs_one_checkpoint(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told, the older one is used, and the bits are the same in the end."""
    expected = whole()
    until(4, monkeypatch)
    lane = parse_lane("dir:lane")
    names = lane.names("checkpoints/run/", str(lane.head()))
    (newest, *_) = sorted(n for n in names if n.endswith("model.safetensors"))[::-1]
    torn = lane.read(newest, str(lane.head()))[:-1]
    lane.commit({newest: torn}, parent=ANY)
    shutil.rmtree("runs")

    assert STEPS == train(asked(), resume="auto").steps
    assert expected == last()
    assert 1 == sum("is passed over" in message for message in caplog.messages)


def test_a_new_run_does_not_take_the_place_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless it is told to; then the lane holds the new one alone."""
    until(2, monkeypatch)
    shutil.rmtree("runs")
    with pytest.raises(RunError, match="dir:lane holds run"):
        train(asked())
    assert not RUN.exists() or not (RUN / "run.json").exists()
    train(asked(), overwrite=True)
    shutil.rmtree("runs")

    assert STEPS == train(asked(), resume="dir:lane").steps


def test_a_lane_that_does_not_answer_at_the_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Fatal for whoever has nothing else; a warning for whoever has a checkpoint."""
    with pytest.raises(RunError, match="checkpoint.lane: ") as told:
        train(asked(lane=None), resume="dir:nowhere")
    assert 1 == len(str(told.value).splitlines())
    until(2, monkeypatch, lane=None)

    assert STEPS == train(asked(lane=None), resume="dir:nowhere").steps
    warned = [r.message for r in caplog.records if "checkpoint.lane: " in r.message]
    assert 1 == len(warned)
    assert "goes on from runs/run/checkpoints/step-00000002" in warned[0]


def test_a_finished_run_still_delivers() -> None:
    """What an outage at its end kept from the lane, or a lane that is named now."""
    train(asked(lane=None))
    expected = last()
    train(asked(), resume="auto")
    shutil.rmtree("runs")
    train(asked(), resume="dir:lane")

    assert expected == last()


def test_a_lane_needs_checkpoints() -> None:
    """Both cannot be meant."""
    with pytest.raises(ConfigError, match="needs checkpoint.enabled"):
        train(asked(enabled=False))


@pytest.mark.parametrize(
    "place", [pytest.param("dir:lane", marks=pytest.mark.slow), "hub:owner/run"]
)
def test_a_killed_run_without_its_disk_is_never_stopped(
    hub: HubEmulator, place: str, tmp_path: Path
) -> None:
    """A real process, SIGKILL right after a delivery, an empty folder, another one."""
    expected = whole()
    script = (
        "import os, signal, sys\n"
        "from tests.shell.test_checkpoint_places import asked\n"
        "from speedtronic.shell.checkpoint_lane import LaneCheckpoints\n"
        "from speedtronic.shell.train import train\n"
        "real = LaneCheckpoints.store\n"
        "def store(self, record, checkpoint):\n"
        "    real(self, record, checkpoint)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "LaneCheckpoints.store = store\n"
        "train(asked(lane=sys.argv[1]))\n"
    )
    path = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    done = subprocess.run(
        [sys.executable, "-c", script, place],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert -signal.SIGKILL == done.returncode, done.stderr
    for left in ("runs", ".speedtronic"):
        shutil.rmtree(left, ignore_errors=True)

    assert STEPS == train(asked(lane=None), resume=place).steps
    assert expected == last()


def test_an_outage_in_the_middle_loses_nothing(
    hub: HubEmulator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The Hub refuses for a while; the last checkpoint is there in the end."""
    from speedtronic.shell import checkpoint_delivery

    monkeypatch.setattr(checkpoint_delivery, "FIRST_S", 0.0)
    hub.faults.inject("server-error", times=40, where=["commit", "preupload", "lfs-*"])
    train(asked(lane="hub:owner/run"))
    lines = [m for m in caplog.messages if "not delivered" in m]
    names = hub.repo("owner/run").files()

    assert f"checkpoints/run/step-{STEPS:08d}/manifest.json" in names
    assert len(lines) <= 1


@pytest.mark.parametrize("given", [True, False, "auto", "runs/x/step-1", "hub:"])
def test_what_is_no_lane(given: bool | str) -> None:
    """It is asked for in another way."""
    assert lane_of(given) is None
