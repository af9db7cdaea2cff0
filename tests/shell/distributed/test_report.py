"""What a node tells of itself."""

import json
from pathlib import Path

import pytest
from tests.shell.distributed.toy import Toy, coordinator, meet, until

from speedtronic.shell.distributed.report import Reporter, read_report, report
from speedtronic.shell.lanes.counted import CountedLane
from speedtronic.shell.lanes.memory import MemoryLane


def test_a_node_is_seen_from_joining_to_its_end(tmp_path: Path) -> None:
    """In the words of its state, with rounds and bytes."""
    (run := tmp_path / "run").mkdir()
    lane, toy = CountedLane(MemoryLane()), Toy()
    tell = Reporter(run, lane)
    with coordinator(lane, tmp_path / "files") as node:
        first = report(node, lane)
        until(node, toy, lambda: node.may_train)
        tell(node)
        training = read_report(run)
        toy.step()
        meet(node, toy, steps=1)
        node.stop(60.0)
        stopping = report(node, lane)
        until(node, toy, lambda: node.stopped)
        tell(node)
    last = read_report(run)
    assert training is not None
    assert last is not None
    assert ("joining", -1, False) == (first.state, first.base_round, first.leads)
    assert ("training", 0, True) == (training.state, training.round, training.leads)
    assert ("stopping", "stopped") == (stopping.state, last.state)
    assert (1, False) == (last.round, last.leads)
    assert 0 < training.bytes_up < last.bytes_up
    assert ["node.json"] == [path.name for path in run.iterdir()]


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"node": "a"}'])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, text: str | None) -> None:
    """A node may not have begun, or be of another version."""
    if text is not None:
        (tmp_path / "node.json").write_text(text)
    assert None is read_report(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bytes_up", "9"),
        ("round", None),
        ("leads", 1),
        ("state", "\x1b[2J"),
        ("more", 1),
        ("steps", 1e300),
    ],
)
def test_a_report_of_another_form_is_nothing(
    tmp_path: Path, field: str, value: object
) -> None:
    """It is shown at a terminal as it is."""
    told = {
        "node": "a",
        "state": "training",
        "leads": True,
        "round": 3,
        "base_round": 2,
        "pending": False,
        "steps": 3,
        "bytes_up": 9,
        "bytes_down": 9,
        "commits": 2,
    }
    (tmp_path / "node.json").write_text(json.dumps(told))
    assert read_report(tmp_path) is not None
    (tmp_path / "node.json").write_text(json.dumps(told | {field: value}))
    assert read_report(tmp_path) is None
