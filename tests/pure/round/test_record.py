"""The record: it survives the disk, and knows its own history."""

import json
from typing import Any

import pytest
from tests.pure.round.test_settle import record
from tests.pure.round.values import (
    LINEAGE,
    OTHER,
    STREAM,
    accept,
    genesis,
    header,
    rounds,
)

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain
from speedtronic.pure.round.record import Record, fork, from_plain, to_plain


def test_another_history_is_noticed() -> None:
    """Before anything of it is taken in."""
    start = genesis()
    assert "" == fork(record(start), rounds(start, 3))
    other = rounds(genesis(), 1, stream=STREAM)
    assert "round 1 was" in fork(record(rounds(start, 1)), rounds(other, 1))


@pytest.mark.parametrize("pending", [True, False])
def test_a_record_survives_the_disk(pending: bool) -> None:
    """Exactly, through JSON."""
    manifest = accept(genesis(), header(genesis()))
    mine = record(manifest, pending)
    text = plain.encode(to_plain(mine))
    assert mine == from_plain(json.loads(text))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stream", OTHER),
        ("owed", {"steps": -1, "tokens": 0}),
        ("seq", -1),
        ("known", {}),
        ("extra", 0),
    ],
)
def test_a_damaged_record_is_refused(field: str, value: Any) -> None:
    """In one line, with the place."""
    fields = {**to_plain(record(genesis())), field: value}
    with pytest.raises(Corrupt, match="record"):
        from_plain(fields)


def test_a_new_record_has_not_joined() -> None:
    """There is no base to train on."""
    empty = Record(node="node-1", lineage=LINEAGE, stream=STREAM)
    assert not empty.joined
    assert record(genesis()).joined
    assert empty == from_plain(to_plain(empty))
