"""A node while the Hub is down: it trains on, loses nothing, and says little."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import close_session, constants
from tests.shell.distributed.toy import Toy, coordinator, manifest, trained, until

from speedtronic.pure.config.base import Secret
from speedtronic.shell.distributed.files import read_weights
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.testing.hub import HubEmulator

REPOSITORY = "owner/run"
STEPS = 40  # during the outage: ten times a node's round


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubEmulator]:
    """An emulated Hub with an empty repository."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    with HubEmulator() as running:
        running.create_repo(REPOSITORY)
        yield running
        close_session()


def test_an_outage_of_the_hub_is_two_lines_and_no_loss(
    hub: HubEmulator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One when it begins and one when it ends; the work goes out as one delta."""
    options = HubOptions(
        token=Secret(hub.token), endpoint=hub.endpoint, cache=tmp_path / "cache"
    )
    lane, toy = HubLane(REPOSITORY, options), Toy()
    with coordinator(lane, tmp_path / "files", retry_max_s=0.05) as node:
        until(node, toy, lambda: node.may_train)
        with caplog.at_level("INFO", "speedtronic.shell.distributed"):
            with hub.outage():
                trained(node, toy, STEPS)
                until(node, toy, lambda: node.worker.failures > 5)
            node.stop(60.0)
            until(node, toy, lambda: node.stopped)
    lines = [r.getMessage() for r in caplog.records if "answer" in r.getMessage()]
    begins = [line for line in lines if "does not answer" in line]
    # The worker and the leader in this node each say it once.
    assert len(begins) <= 2
    assert len(lines) <= 4
    assert any("the lane answers again after" in line for line in lines)
    found = manifest(lane)
    assert 0 < found.round <= 3
    head = lane.head()
    assert head is not None
    lane.fetch("model.safetensors", head, tmp_path / "w")
    weights = read_weights(tmp_path / "w")
    assert torch.full((3,), float(STEPS)).equal(weights.params["w"])
