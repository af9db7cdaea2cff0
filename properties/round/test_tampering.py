"""Whatever somebody changes in the history of a signed run, a replay finds it."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedtronic.errors import Corrupt, SpeedtronicError
from speedtronic.pure.round import names
from speedtronic.shell.distributed.fetched import fetch_checked
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.distributed.replay import replay
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import made_up_keys, recorded_run

KEYS = made_up_keys(3)
OWNER = KEYS["node-0"].public


@cache
def content() -> dict[str, bytes]:
    """Every file of a run of five rounds, all of them kept."""
    lane = MemoryLane()
    recorded_run(lane, rounds=5, seed=3, keys=KEYS)
    revision = str(lane.head())
    return {name: lane.read(name, revision) for name in lane.names("", revision)}


def lane_of(files: dict[str, bytes]) -> MemoryLane:
    """A lane that holds this."""
    lane = MemoryLane()
    lane.commit(dict(files), parent=None)
    return lane


def found_out(files: dict[str, bytes]) -> bool:
    """Whether a replay says that something is wrong."""
    try:
        return not replay(lane_of(files), owner=OWNER).ok
    except SpeedtronicError:
        return True


def test_what_nobody_touched_verifies() -> None:
    """Or the others would prove nothing."""
    assert not found_out(content())


@given(st.data())
def test_one_bit_anywhere_is_found(data: st.DataObject) -> None:
    """Of a manifest, a delta, the weights or the momentum, of any round."""
    name = data.draw(st.sampled_from(sorted(content())))
    old = content()[name]
    place = data.draw(st.integers(0, 8 * len(old) - 1))
    changed = bytearray(old)
    changed[place // 8] ^= 1 << place % 8
    assert found_out({**content(), name: bytes(changed)})


@given(st.data())
def test_a_chain_in_another_order_is_found(data: st.DataObject) -> None:
    """Two files of one kind change places."""
    kind = data.draw(st.sampled_from(["manifest.json", ".safetensors"]))
    of_kind = sorted(n for n in content() if n.endswith(kind))
    one, two = data.draw(
        st.lists(st.sampled_from(of_kind), min_size=2, max_size=2, unique=True)
    )
    files = content()
    if files[one] == files[two]:
        return  # the head is also kept under its round
    assert found_out({**files, one: files[two], two: files[one]})


@given(st.data())
def test_a_missing_file_of_a_round_is_found(data: st.DataObject) -> None:
    """A manifest in the middle, or a delta that counted."""
    last = names.kept(5, names.MANIFEST)
    deltas = [
        n
        for n in content()
        if n.startswith(names.ROUNDS)
        and not n.endswith((names.WEIGHTS, names.MOMENTUM))
        and n not in (last, names.kept(0, names.MANIFEST))
    ]
    name = data.draw(st.sampled_from(sorted(deltas)))
    files = {k: v for k, v in content().items() if k != name}
    assert found_out(files)


@pytest.mark.parametrize("name", [names.MANIFEST, names.WEIGHTS])
def test_a_node_takes_in_nothing_that_was_touched(name: str, tmp_path: Path) -> None:
    """At any of a hundred places of what every node reads."""
    old = content()[name]
    for place in range(0, len(old), max(1, len(old) // 100)):
        changed = old[:place] + bytes([old[place] ^ 4]) + old[place + 1 :]
        lane = lane_of({**content(), name: changed})
        with pytest.raises(Corrupt):
            view = Looker(lane).look()
            assert view.manifest and view.revision
            path = tmp_path / "weights"
            fetch_checked(lane, view.manifest.weights, view.revision, path)
