"""A node's progress in a checkpoint."""

from typing import Any

import pytest
import torch
from tests.shell.distributed.test_files import header
from torch import Tensor

from speedtronic.errors import CheckpointError
from speedtronic.pure.delta import Weights
from speedtronic.pure.progress import Progress, cut
from speedtronic.pure.round import record as records
from speedtronic.pure.round.record import Pending, Record
from speedtronic.pure.tree import tree_map
from speedtronic.shell.distributed.saved import KEY, from_checkpoint, to_tensors

BASE = Weights(params={"w": torch.randn(3)}, buffers={"n": torch.tensor(4)})
NOW = Weights(params={"w": torch.randn(3)}, buffers={"n": torch.tensor(5)})
LIKES: Weights = tree_map(lambda x: x.to("meta"), BASE)
HELD = cut(Progress(base=BASE), NOW)
assert HELD.sent is not None
PENDING = Record(
    node="a",
    lineage="0" * 64,
    stream="1" * 16,
    run="0" * 16,
    base_round=0,
    base_id="5" * 64,
    pending=Pending(header=header(HELD.sent)),
)
DECIDED = Record(
    node="a", lineage="0" * 64, stream="1" * 16, base_round=0, base_id="5" * 64
)


def values(record: Record) -> dict[str, Any]:
    """As a checkpoint holds it."""
    return {KEY: records.to_plain(record)}


def test_record_and_vectors_come_back() -> None:
    """Those of the pending delta, too."""
    found = from_checkpoint(values(PENDING), to_tensors(PENDING, HELD), LIKES)
    assert found is not None
    record, progress = found
    assert progress is not None
    assert progress.sent is not None
    assert HELD.sent is not None
    assert PENDING == record
    assert torch.equal(BASE.params["w"], progress.base.params["w"])
    assert torch.equal(HELD.sent.params["w"], progress.sent.params["w"])
    assert torch.equal(HELD.sent.buffers["n"], progress.sent.buffers["n"])


def test_what_is_decided_is_not_saved() -> None:
    """Nor is there anything before a node has joined."""
    assert ["round/base/params/w", "round/base/buffers/n"] == list(
        to_tensors(DECIDED, HELD)
    )
    assert {} == to_tensors(DECIDED, None)


def test_a_checkpoint_of_a_run_that_trained_alone_has_no_round() -> None:
    """Then the node begins as a new one."""
    assert None is from_checkpoint({"counters": {}}, {}, LIKES)


def _without(tensors: dict[str, Tensor], part: str) -> dict[str, Tensor]:
    return {path: x for path, x in tensors.items() if f"/{part}/" not in path}


@pytest.mark.parametrize(
    ("record", "change", "told"),
    [
        (PENDING, lambda t: _without(t, "sent"), "a pending delta without vectors"),
        (PENDING, lambda t: _without(t, "base"), "no base of a node that has joined"),
        (
            PENDING,
            lambda t: t | {"round/base/params/w": torch.ones(2)},
            r"float32\[2\]",
        ),
        (PENDING, lambda t: t | {"round/sent/params/w": torch.ones(2)}, "sent: params"),
        (DECIDED, lambda t: t | {"round/base/other/w": torch.ones(2)}, "unexpected"),
        ({"node": 5}, lambda t: t, "missing key"),
    ],
    ids=["sent", "base", "shape", "sent's shape", "kind", "record"],
)
def test_what_this_run_would_not_have_written_is_told(
    record: Any, change: Any, told: str
) -> None:
    """With what is wrong."""
    plain = values(record) if isinstance(record, Record) else {KEY: record}
    tensors = to_tensors(record if isinstance(record, Record) else PENDING, HELD)
    with pytest.raises(CheckpointError, match=told):
        from_checkpoint(plain, change(tensors), LIKES)
