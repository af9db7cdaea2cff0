"""Whatever crashes, repeats, arrives late or twice: what must hold about rounds holds.

`make test` runs 2 210 schedules here, the soak profile a hundred times as many, and
``python -m properties.round.simulator`` any number. A schedule that fails is printed
as small as it could be made, with what happened in it; the same bytes do it again.
"""

from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from properties.round.network import REVISIONS_KEPT
from properties.round.observer import Violation
from properties.round.scopes import SCOPES
from properties.round.simulator import EVENTS, run, schedule

from speedtronic.shell.lanes.directory import DirectoryLane

EXAMPLES = settings().max_examples * 13 // 5  # 130 for each of 17 scopes
SIZE = 1 + 3 * EVENTS * 3 // 4


@pytest.mark.parametrize("name", SCOPES)
def test_rounds_keep_their_promises(name: str) -> None:
    """No schedule of faults violates an invariant, and all live work counts."""

    @settings(max_examples=EXAMPLES)
    @given(drawn=st.binary(min_size=SIZE, max_size=SIZE))
    def holds(drawn: bytes) -> None:
        trace: list[str] = []
        try:
            run(SCOPES[name], drawn, trace=trace)
        except Violation:
            note("\n".join(trace))
            raise

    holds()


@pytest.mark.parametrize("seed", range(4))
def test_a_folder_does_what_memory_does(seed: int, tmp_path: Path) -> None:
    """The same schedule over another lane ends in the same rounds."""
    scope = SCOPES["everything"]
    folder = DirectoryLane.create(tmp_path / "lane", keep=REVISIONS_KEPT)
    one = run(scope, schedule(seed), lane=folder)
    other = run(scope, schedule(seed))
    assert other.observer.rounds == one.observer.rounds
    assert other.lane.tree == one.lane.tree


def test_a_schedule_can_be_replayed() -> None:
    """The same bytes do the same things."""
    traces: list[list[str]] = [[], []]
    worlds = [run(SCOPES["everything"], schedule(7), trace=t) for t in traces]
    assert traces[0] == traces[1]
    one, other = (world.observer.rounds for world in worlds)
    assert one == other and len(one) > 2
