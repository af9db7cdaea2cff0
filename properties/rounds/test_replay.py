"""A replay proves a run: every right one verifies, and no bit of a wrong one passes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from speedtronic.pure.outer import OuterRule
from speedtronic.pure.round.names import ROUNDS, kept_round
from speedtronic.pure.round.rule import RoundRule
from speedtronic.pure.rules import NAMES
from speedtronic.shell.distributed.replay import replay
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import recorded_run

FEWER = settings(max_examples=max(1, settings.default.max_examples // 5))
RULES = st.builds(
    RoundRule,
    aggregate=st.sampled_from(NAMES),
    faulty=st.just(0),
    discount=st.booleans(),
    outer=st.sampled_from([OuterRule(), OuterRule(nesterov=False, momentum=0.5)]),
)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@FEWER
@given(
    seed=st.integers(0, 2**31),
    nodes=st.integers(1, 4),
    keep=st.sampled_from([None, 1, 2, 3]),
    rule=RULES,
    there=st.sampled_from([1, 2]),
    here=st.sampled_from([1, 2]),
)
def test_every_run_verifies(
    seed: int, nodes: int, keep: int | None, rule: RoundRule, there: int, here: int
) -> None:
    """Whoever computes it again, with as many threads as they like."""
    assume(nodes >= rule.least)
    lane = MemoryLane()
    with threads(there):
        recorded_run(lane, 4, nodes, seed, keep=keep, rule=rule)
    with threads(here):
        found = replay(lane)

    assert [] == [report for report in found.rounds if not report.verified]
    assert 4 == found.rounds[-1].round
    assert len(found.rounds) > (keep or 3)


@cache
def content() -> dict[str, bytes]:
    """What a run of four rounds leaves on its lane."""
    lane = MemoryLane()
    recorded_run(lane, 4, seed=3, keep=2)
    revision = str(lane.head())
    return {name: lane.read(name, revision) for name in lane.names("", revision)}


@FEWER
@given(data=st.data())
def test_no_bit_of_a_kept_file_can_be_another(data: st.DataObject) -> None:
    """It is found in its round; only the name of the file's format says nothing.

    What went into the oldest anchor is not needed, and not read.
    """
    kept = {name: kept_round(name) for name in content() if name.startswith(ROUNDS)}
    needed = sorted(n for n, r in kept.items() if r != 2 or "/node-" not in n)
    name = data.draw(st.sampled_from(needed))
    whole = content()[name]
    front = st.integers(0, min(1500, len(whole)) - 1)
    byte = data.draw(front | st.integers(0, len(whole) - 1))
    spoiled = bytearray(whole)
    spoiled[byte] ^= 1 << data.draw(st.integers(0, 7))
    lane = MemoryLane()
    lane.commit({**content(), name: bytes(spoiled)}, parent=None)
    wrong = [report.round for report in replay(lane).rounds if report.problem]
    free = whole.find(b'"format":"pt"')
    if name.endswith(".json") or not free <= byte < free + 14:
        assert kept[name] == wrong[0], (name, byte)
