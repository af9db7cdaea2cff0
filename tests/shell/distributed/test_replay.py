"""Rounds computed again, from the lane alone, by the run's rule and by others."""

from pathlib import Path

import pytest
import torch
from tests.shell.distributed.tampering import (
    ANCHOR,
    FIRST,
    HEAD,
    content,
    deltas,
    flip,
    flipped,
    lane_of,
    lane_with,
    manifest,
    problems,
)

from speedtronic.errors import ConfigError, Missing
from speedtronic.pure.aggregate import Aggregator, aggregate, mean, token_mean
from speedtronic.pure.delta import from_named
from speedtronic.pure.outer import OuterRule, outer_step
from speedtronic.pure.robust import geometric_median
from speedtronic.pure.round import names
from speedtronic.pure.round.rule import RoundRule, from_numbers, origin_of
from speedtronic.pure.rules import NAMES, Rule
from speedtronic.pure.tree import named_leaves
from speedtronic.shell import blobs
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.files import read_header
from speedtronic.shell.distributed.replay import RoundReport, replay
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import recorded_run

WEIGHTS, MOMENTUM = names.WEIGHTS, names.MOMENTUM


def test_every_round_of_an_untouched_run_verifies() -> None:
    """From the oldest anchor to the head, with what went into each."""
    found = replay(lane_with())

    assert found.ok
    assert list(range(FIRST, HEAD + 1)) == [r.round for r in found.rounds]
    assert all(r.verified for r in found.rounds)
    assert [True] + 5 * [False] == [r.anchor for r in found.rounds]
    counted = [len(manifest(round).accepted) for round in range(5, 10)]
    assert [0, *counted] == [r.deltas for r in found.rounds]
    assert all(r.tokens == 16 * r.steps > 0 for r in found.rounds[1:])


def test_a_replay_ends_at_the_published_model() -> None:
    """Under its own names, which the published file does not use."""
    found = replay(lane_with())
    assert found.state is not None
    lane = lane_with()
    with_names = blobs_of(lane, WEIGHTS)

    assert {"w": "model.w"} == found.renamed
    assert HEAD == found.state.round
    assert torch.equal(with_names["model.w"], found.state.weights.params["w"])
    assert torch.equal(with_names["mean"], found.state.weights.buffers["mean"])


def blobs_of(lane: MemoryLane, name: str) -> dict[str, torch.Tensor]:
    """The tensors in a file on a lane."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        lane.fetch(name, str(lane.head()), Path(folder) / "file")
        return blobs.read(Path(folder) / "file")


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_every_rule_verify(name: Rule) -> None:
    """With stale and long deltas among those that count."""
    lane = MemoryLane()
    rule = RoundRule(aggregate=name, faulty=0, discount=True)
    recorded_run(lane, 4, nodes=4, seed=5, rule=rule)
    found = replay(lane)

    assert found.ok
    assert 4 == found.rounds[-1].round
    assert all(r.deltas >= rule.least for r in found.rounds[1:])


def test_another_rule_needs_deltas_enough() -> None:
    """What would have become of rounds of one delta cannot be told."""
    lane = MemoryLane()
    recorded_run(lane, 2, nodes=1)
    found = replay(lane, aggregator=geometric_median())

    assert "expected at least 3 deltas" in found.rounds[1].problem


def test_a_round_is_the_definition_over_its_deltas(tmp_path: Path) -> None:
    """`outer_step` of the `aggregate` in memory, for a round of several deltas."""
    lane, round = lane_with(), max(range(5, 10), key=lambda n: len(deltas(n)))
    before, after = replay(lane, last=round - 1).state, replay(lane, last=round).state
    assert before is not None and after is not None
    rule = from_numbers(manifest(round).outer)
    given = {}
    for place in deltas(round):
        lane.fetch(place, str(lane.head()), tmp_path / "delta")
        with open_delta(tmp_path / "delta") as file:
            origin = origin_of(read_header(file), round)
        given[origin] = from_named(blobs.read(tmp_path / "delta"))
    expected, _ = outer_step(before, aggregate(given, rule.aggregator), rule.outer)

    assert len(given) > 1
    for path, x in named_leaves(expected).items():
        assert torch.equal(x, named_leaves(after)[path]), path


def test_it_ends_at_the_round_that_was_asked_for() -> None:
    """What is wrong behind it is not looked at."""
    found = replay(lane_of({**content(), **flipped(deltas(7)[0])}), last=6)

    assert found.ok and [4, 5, 6] == [r.round for r in found.rounds]


def test_it_begins_at_the_newest_anchor_before_the_first() -> None:
    """That round is computed too."""
    begins = {
        first: replay(lane_with(), first=first).rounds[0].round
        for first in (4, 5, 8, 9)
    }

    assert {4: 4, 5: 4, 8: 4, 9: 8} == begins


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        (3, None, "round 3 is not kept for replay; rounds 5 to 9 can be"),
        (None, 2, "round 2 is not kept for replay; rounds 5 to 9 can be"),
        (4, 4, "round 4 is not kept for replay; rounds 5 to 9 can be"),
        (10, None, "round 10 is not there yet: the run is at round 9"),
        (5, 12, "round 12 is not there yet: the run is at round 9"),
        (7, 6, "expected the first round before the last, found 7 and 6"),
        (-1, None, "round -1 is not kept for replay; rounds 5 to 9 can be"),
    ],
)
def test_rounds_that_are_not_kept_are_told(
    first: int | None, last: int | None, told: str
) -> None:
    """With those that are."""
    with pytest.raises(ConfigError) as error:
        replay(lane_with(), first=first, last=last)
    assert told == str(error.value)


def test_nothing_kept_is_told() -> None:
    """The newest model alone proves nothing."""
    lane = MemoryLane()
    recorded_run(lane, rounds=2, keep=0)
    with pytest.raises(ConfigError, match="round 2 is not kept for replay; no round"):
        replay(lane)


def test_a_run_without_rounds_has_only_its_model() -> None:
    """That is what its manifest says."""
    lane = MemoryLane()
    recorded_run(lane, rounds=0)
    found = replay(lane)

    assert (RoundReport(round=0, anchor=True, verified=True),) == found.rounds


def test_a_lane_without_a_run_is_told() -> None:
    """Whether it is empty or holds something else."""
    for lane in (MemoryLane(), lane_of({"README.md": b"hello"})):
        with pytest.raises(ConfigError, match="holds no run"):
            replay(lane)


def test_a_directory_lane_finds_the_flipped_bit_itself(tmp_path: Path) -> None:
    """It is told all the same, for the round it belongs to."""
    lane = parse_lane(f"dir:{tmp_path / 'lane'}", create=True)
    files = {name: data for name, data in content().items()}
    lane.commit(files, parent=None)
    assert replay(lane).ok
    place = deltas(6)[0]
    for blob in (tmp_path / "lane/blobs").iterdir():
        if blob.read_bytes() == content()[place]:
            blob.write_bytes(flip(content()[place], -1, 0))
    told = problems(replay(lane))

    assert [6, 7, 8] == list(told) and "other bytes than were committed" in told[6]


def test_a_run_that_goes_on_too_fast_is_told() -> None:
    """All is read at one revision; the lane keeps only so many."""
    lane = MemoryLane(keep=1)
    lane.commit(content(), parent=None)

    def goes_on(report: RoundReport, last: int) -> None:
        lane.commit({"README.md": b"later"}, parent=lane.head())

    with pytest.raises(Missing, match="is no longer kept: the run went on"):
        replay(lane, progress=goes_on)


def test_what_is_committed_meanwhile_changes_nothing() -> None:
    """All is read at one revision."""
    lane = lane_with()

    def spoil(report: RoundReport, last: int) -> None:
        lane.commit(flipped(deltas(6)[0]), parent=lane.head())  # type: ignore[arg-type]

    assert replay(lane, progress=spoil).ok


def test_nothing_is_left_in_the_work_folder(tmp_path: Path) -> None:
    """Not even between two rounds."""
    seen: list[int] = []

    def look(report: RoundReport, last: int) -> None:
        seen.append(sum(1 for path in tmp_path.rglob("*") if path.is_file()))
        assert HEAD == last

    replay(lane_with(), work=tmp_path, progress=look)

    assert 6 * [0] == seen
    assert [] == list(tmp_path.iterdir())


def median() -> Aggregator:
    """The value in the middle; of an even number, the lower one."""
    return Aggregator(
        weigh=lambda origins: [1.0 for _ in origins],
        init=lambda x, weight: [x],
        update=lambda seen, x, weight: [*seen, x],
        finish=lambda seen: torch.stack(seen).median(dim=0).values,
    )


def test_a_rule_of_ones_own_is_measured_not_compared() -> None:
    """Its distance is told where published weights are at hand."""
    found = replay(lane_with(), aggregator=median())
    far = {r.round: r.distance for r in found.rounds if r.distance is not None}

    assert found.ok and not any(r.verified for r in found.rounds)
    assert [ANCHOR, HEAD] == list(far)
    assert far[ANCHOR] > 0


def test_the_runs_own_rule_leads_nowhere_else() -> None:
    """Given by hand, it ends at the published weights."""
    found = replay(lane_with(), aggregator=mean(), outer=OuterRule())

    assert {ANCHOR: 0.0, HEAD: 0.0} == {
        r.round: r.distance for r in found.rounds if r.distance is not None
    }


@pytest.mark.parametrize(
    "outer",
    [OuterRule(momentum=0.0), OuterRule(nesterov=False), OuterRule(learning_rate=0.1)],
    ids=["plain", "heavy ball", "slow"],
)
def test_an_outer_rule_of_ones_own_begins_at_the_anchor(outer: OuterRule) -> None:
    """With its momentum, if the rule has any."""
    found = replay(lane_with(), outer=outer)
    assert found.state is not None

    assert found.ok and found.rounds[-1].distance
    assert bool(outer.momentum) == bool(found.state.momentum)


def test_momentum_can_be_asked_of_a_run_that_had_none() -> None:
    """It begins at zero."""
    lane = MemoryLane()
    recorded_run(lane, 2, rule=RoundRule(outer=OuterRule(momentum=0.0)))
    found = replay(lane, outer=OuterRule())
    assert found.state is not None

    assert found.ok and found.state.momentum


def test_a_delta_that_is_spoiled_ends_a_rule_of_ones_own() -> None:
    """Its model cannot be taken from an anchor of the run."""
    files = {**content(), **flipped(deltas(6)[0])}
    found = replay(lane_of(files), aggregator=median())

    assert {6, 7, 8, 9} == problems(found).keys()
    assert found.state is None


@pytest.mark.parametrize(
    "rule",
    [
        RoundRule(aggregate="token_mean"),
        RoundRule(discount=True),
        RoundRule(outer=OuterRule(momentum=0.0)),
        RoundRule(outer=OuterRule(nesterov=False, learning_rate=1.0)),
    ],
    ids=["tokens", "discount", "plain", "heavy ball"],
)
def test_every_rule_of_a_run_is_repeated(rule: RoundRule) -> None:
    """The manifest carries its numbers."""
    lane = MemoryLane()
    recorded_run(lane, 4, rule=rule)

    assert replay(lane).ok
    other = replay(
        lane, aggregator=token_mean() if rule.aggregate == "mean" else mean()
    )
    assert other.ok and other.rounds[-1].distance is not None
