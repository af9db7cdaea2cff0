"""The threads of a node: joining, delivering, taking in, stopping, failing."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shell.distributed.toy import (
    Toy,
    coordinator,
    manifest,
    meet,
    model,
    trained,
    until,
)

from speedtronic.errors import Denied, TrainingError, Unavailable
from speedtronic.pure.round.master import leads
from speedtronic.shell.lanes.memory import MemoryLane


def test_a_first_node_begins_the_run_and_joins_it(tmp_path: Path) -> None:
    """It trains on what was published, not on what it had before."""
    lane, toy = MemoryLane(), Toy()
    with coordinator(lane, tmp_path) as node:
        until(node, toy, lambda: node.may_train)
        assert leads(node.master) if node.master else False
    assert torch.equal(model().params["w"], toy.weights_now.params["w"])
    assert 0 == manifest(lane).round
    assert 1 == len(toy.saves)  # that it joined survives a crash


def test_what_was_trained_counts_once(tmp_path: Path) -> None:
    """Four steps are a delta; the global moves by their sum, and so does the base."""
    lane, toy = MemoryLane(), Toy()
    with coordinator(lane, tmp_path) as node:
        until(node, toy, lambda: node.may_train)
        trained(node, toy, 4)
        trained(node, toy, 1)  # goes on while the delta is on its way
        until(node, toy, lambda: node.worker.record.base_round == 1)
        record = node.worker.record
    found = manifest(lane)
    assert (1, ("a",)) == (found.round, tuple(n.node for n in found.accepted))
    assert (None, 1) == (record.pending, record.fresh.steps)
    assert torch.full((3,), 5.0).equal(toy.weights_now.params["w"])
    assert node.progress is not None
    assert torch.full((3,), 4.0).equal(node.progress.base.params["w"])


def test_a_stop_delivers_the_rest_and_gives_the_lease_up(tmp_path: Path) -> None:
    """Also work that is less than a round."""
    lane, toy = MemoryLane(), Toy()
    with coordinator(lane, tmp_path) as node:
        until(node, toy, lambda: node.may_train)
        trained(node, toy, 1)
        node.stop(60.0)
        until(node, toy, lambda: node.stopped)
    found = manifest(lane)
    assert (1, True) == (found.round, found.lease.released)


@pytest.mark.parametrize("pending", [True, False], ids=["pending", "decided"])
def test_a_node_goes_on_from_what_was_saved(tmp_path: Path, pending: bool) -> None:
    """After a crash at the moment when its delta was durable, sent or not."""
    lane, toy = MemoryLane(), Toy()
    with coordinator(lane, tmp_path / "1") as node:
        until(node, toy, lambda: node.may_train)
        trained(node, toy, 4)
        until(node, toy, lambda: len(toy.saves) == 2)
        if not pending:
            until(node, toy, lambda: node.worker.record.base_round == 1)
    weights, values, tensors = toy.saves[-1]
    again = Toy(weights_now=weights, cursor=4)
    saved = values, tensors
    folder, life = tmp_path / "2", "2" * 16
    with coordinator(lane, folder, life=life, saved=saved, begins=False) as node:
        assert node.worker.record.pending is not None
        leader = manifest(lane).lease
        assert "1" * 16 == leader.life  # it must expire, or be given up
        node.stop(0.0)
        until(node, again, lambda: bool(node.worker.ended))
    assert torch.full((3,), 4.0).equal(again.weights_now.params["w"])


def test_two_nodes_agree_on_the_mean(tmp_path: Path) -> None:
    """Each takes the published global exactly once both have delivered."""
    lane = MemoryLane()
    one, two = Toy(), Toy()
    first = coordinator(lane, tmp_path / "a", grace_s=60.0, wait_s=60.0)
    second = coordinator(
        lane, tmp_path / "b", node="b", life="2" * 16, leads=False, wait_s=60.0
    )
    with first, second:
        until(first, one, lambda: first.may_train)
        until(second, two, lambda: second.may_train)
        trained(first, one, 4)
        for _ in range(4):
            two.step()
            two.step()
            meet(second, two, steps=1)
        first.master = _expecting(first.master, 2)
        until(first, one, lambda: first.worker.record.base_round == 1)
        until(second, two, lambda: second.worker.record.base_round == 1)
    assert torch.full((3,), 6.0).equal(one.weights_now.params["w"])
    assert torch.full((3,), 6.0).equal(two.weights_now.params["w"])


def _expecting(master: Any, deltas: int) -> Any:
    import attrs

    return attrs.evolve(master, settings=attrs.evolve(master.settings, expected=deltas))


class Broken(MemoryLane):
    """Answers with an error once it is told to."""

    error: Exception | None = None

    def commit(self, *arguments: Any, **more: Any) -> str:
        if self.error is not None:
            raise self.error
        return super().commit(*arguments, **more)


def test_an_outage_costs_nothing(tmp_path: Path) -> None:
    """Training goes on; everything goes out as one delta afterwards."""
    lane, toy = Broken(), Toy()
    with coordinator(lane, tmp_path) as node:
        until(node, toy, lambda: node.may_train)
        lane.error = Unavailable("no route to host")
        trained(node, toy, 20)
        until(node, toy, lambda: "delta_upload_failed" in dict(node.events()))
        lane.error = None
        node.stop(60.0)
        until(node, toy, lambda: node.stopped)
    assert torch.full((3,), 20.0).equal(toy.weights_now.params["w"])


def test_a_refusal_for_good_stops_the_training(tmp_path: Path) -> None:
    """A person has to look; the reason is the lane's."""
    lane, toy = Broken(), Toy()
    with coordinator(lane, tmp_path) as node:
        until(node, toy, lambda: node.may_train)
        lane.error = Denied("the token may only read")
        trained(node, toy, 4)
        with pytest.raises(TrainingError, match="the token may only read"):
            until(node, toy, lambda: False)


def test_a_mistake_of_ours_is_told_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing ends in silence in a background thread."""
    lane, toy = Broken(), Toy()
    with coordinator(lane, tmp_path) as node:
        until(node, toy, lambda: node.may_train)
        lane.error = ZeroDivisionError("a mistake")
        trained(node, toy, 4)
        until(node, toy, lambda: "Upload failed" in caplog.text)
        lane.error = None
        until(node, toy, lambda: node.worker.record.base_round == 1)


def test_leaving_without_a_stop_leaves_no_thread(tmp_path: Path) -> None:
    """As when training fails."""
    import threading

    before = threading.active_count()
    lane, toy = MemoryLane(), Toy()
    with coordinator(lane, tmp_path) as node:
        until(node, toy, lambda: node.may_train)
    assert before == threading.active_count()
