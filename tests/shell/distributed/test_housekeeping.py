"""A leader squashes the history of a repository; a reader in the middle recovers."""

import logging
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from tests.shell.distributed.toy import Toy, coordinator, manifest, meet, until

from speedtronic.errors import Denied, LaneError, Missing, Unavailable
from speedtronic.pure.config import Config
from speedtronic.pure.config.base import Secret
from speedtronic.pure.round import names
from speedtronic.pure.round.events import Publish
from speedtronic.shell.distributed.housekeeping import Housekeeping, housekeeping
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.lanes.counted import CountedLane
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.hub import HubEmulator
from speedtronic.testing.runs import recorded_run


class Squashed(MemoryLane):
    """Remembers what was asked of it, and fails as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.squashes = self.releases = 0
        self.failure: LaneError | None = None

    def squash(self, message: str = "") -> str:
        """See `Squashable`."""
        self.squashes += 1
        if self.failure is not None:
            raise self.failure
        return str(self.head())

    def release(self, *, kept_s: float = 0.0) -> int:
        """See `Squashable`."""
        self.releases += 1
        return 5


@pytest.fixture
def lane() -> Squashed:
    """With a run of two rounds."""
    found = Squashed()
    recorded_run(found, rounds=2)
    return found


def published(lane: Lane, round: int, serial: int | None = None) -> Publish:
    found = manifest(lane)
    found = attrs.evolve(found, round=round, serial=serial or found.serial)
    return Publish(
        parent=None, manifest=found, names=(), fresh=True, copies=(), deletes=()
    )


def test_it_is_time_every_so_many_rounds(lane: Squashed) -> None:
    """Once in each period, also when a round is published in several manifests."""
    keep = Housekeeping(lane, 3)
    told = []
    for round in (1, 2, 3, 3, 4, 5, 6, 7, 9):
        keep(published(lane, round))
        told.append(lane.squashes)

    assert [0, 0, 1, 1, 1, 1, 2, 2, 3] == told
    assert 3 == lane.releases


def test_a_failure_is_tried_again_with_the_next_round(
    lane: Squashed, caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes on."""
    keep = Housekeeping(lane, 3)
    lane.failure = Unavailable("no answer")
    keep(published(lane, 3))
    lane.failure = None
    keep(published(lane, 4))

    assert (2, 1) == (lane.squashes, lane.releases)
    assert ["squashing is tried again with the next round: no answer"] == [
        r.message for r in caplog.records if r.levelname == "WARNING"
    ]


def test_who_may_not_is_told_once(
    lane: Squashed, caplog: pytest.LogCaptureFixture
) -> None:
    """And not asked again."""
    keep = Housekeeping(lane, 1)
    lane.failure = Denied("not yours")
    for round in (1, 2, 3):
        keep(published(lane, round))

    assert (1, 1) == (lane.squashes, len(caplog.messages))


def test_a_run_that_went_back_is_told(
    lane: Squashed, caplog: pytest.LogCaptureFixture
) -> None:
    """By the serials; nothing is written."""
    head, serial = lane.head(), manifest(lane).serial
    Housekeeping(lane, 1)(published(lane, 1, serial + 1))

    assert head == lane.head()
    (line,) = [r.message for r in caplog.records if r.levelname == "ERROR"]
    assert line.endswith(f"has serial {serial}, it had {serial + 1}")


def test_only_lanes_with_a_history_are_squashed(lane: Squashed) -> None:
    """And only if the config wants it."""
    never = attrs.evolve(
        Config(), distributed=attrs.evolve(Config().distributed, squash_rounds=None)
    )
    assert isinstance(housekeeping(Config(), CountedLane(lane)), Housekeeping)
    assert not isinstance(housekeeping(never, CountedLane(lane)), Housekeeping)
    memory = CountedLane(MemoryLane())
    assert not isinstance(housekeeping(Config(), memory), Housekeeping)


@pytest.fixture
def hub() -> Iterator[HubEmulator]:
    with HubEmulator() as running:
        running.create_repo("owner/run")
        yield running


def hub_lane(hub: HubEmulator, folder: Path) -> HubLane:
    options = HubOptions(
        token=Secret(hub.token), endpoint=hub.endpoint, cache=folder / "cache"
    )
    return HubLane("owner/run", options)


def test_nodes_go_on_through_squashes(
    hub: HubEmulator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader that squashes after every round, and a reader on another machine."""
    lane, reader, toy, other = (
        hub_lane(hub, tmp_path / "a"),
        hub_lane(hub, tmp_path / "b"),
        Toy(),
        Toy(),
    )
    leads = coordinator(lane, tmp_path / "first")
    leads._parts = attrs.evolve(leads._parts, published=Housekeeping(lane, 1))
    follows = coordinator(
        reader, tmp_path / "second", node="b", life="2" * 16, leads=False
    )
    with caplog.at_level(logging.INFO), leads, follows:
        for node, training in ((leads, toy), (follows, other)):
            until(node, training, lambda n=node: n.may_train and n.may_save)  # type: ignore[misc]
        for round in (1, 2):
            for node, training in ((leads, toy), (follows, other)):
                for _ in range(4):
                    training.step()
                    meet(node, training, steps=1)
            for node, training in ((leads, toy), (follows, other)):
                until(
                    node,
                    training,
                    lambda n=node, r=round: n.worker.record.base_round >= r,  # type: ignore[misc]
                )
    squashes = [line for line in caplog.messages if line.startswith("squashed")]

    assert 2 <= len(squashes)
    assert len(hub.repo("owner/run").history) < 2 * len(squashes) + 6
    assert manifest(reader).serial == manifest(lane).serial


def test_a_pinned_read_that_lost_its_revision_looks_again(
    hub: HubEmulator, tmp_path: Path
) -> None:
    """Missing says so, and the next look has the same manifest."""
    lane, reader = hub_lane(hub, tmp_path / "a"), hub_lane(hub, tmp_path / "b")
    recorded_run(lane, rounds=1)
    head = str(reader.head())
    before = manifest(lane)
    Housekeeping(lane, 1)(published(lane, before.round))

    with pytest.raises(Missing):
        reader.read(names.MANIFEST, head)
    assert before == manifest(reader)
    assert 1 == len(hub.repo("owner/run").history)
