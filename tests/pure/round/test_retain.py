"""What is kept of finished rounds, so that replay can start and end somewhere."""

from speedtronic.pure.round.names import MANIFEST, MOMENTUM, WEIGHTS, DeltaName, kept
from speedtronic.pure.round.retain import plan

DELTA = DeltaName("n", "ab" * 8, 1, "cd" * 32)


def lane_after(rounds: int, keep: int | None, budget: int = 50) -> set[str]:
    """The kept files of a run after so many rounds with one delta each."""
    found: set[str] = set()
    for number in range(rounds + 1):
        made = plan(
            round=number,
            accepted=(DELTA,) if number else (),
            keep=keep,
            listing=tuple(sorted(found)),
            budget=budget,
        )
        assert len(made.deletes) <= budget
        assert set(made.deletes) <= found
        found = found - set(made.deletes) | {new for _, new in made.copies}
        found |= set(made.manifest)
    return found


def replayable(found: set[str], newest: int) -> int:
    """The oldest anchor from which every round up to the newest is there."""
    anchors = [r for r in range(newest) if kept(r, WEIGHTS) in found]
    anchors = [r for r in anchors if kept(r, MOMENTUM) in found]
    return min(
        r
        for r in anchors
        if all(
            {DELTA.kept(n), kept(n, MANIFEST)} <= found
            for n in range(r + 1, newest + 1)
        )
    )


def test_at_least_the_asked_rounds_can_be_replayed() -> None:
    """And never more than twice as many, after any number of rounds."""
    for keep in (1, 2, 3, 10):
        for newest in range(1, 5 * keep):
            found = lane_after(newest, keep)
            back = newest - replayable(found, newest)
            assert back >= min(keep, newest)
            assert back <= 2 * keep
            assert len(found) <= 2 * (2 * keep + 1) + 3 * 2


def test_everything_can_be_kept() -> None:
    """From the anchor of round 0 on."""
    assert 0 == replayable(lane_after(30, None), 30)


def test_nothing_can_be_kept() -> None:
    """What an earlier setting left is swept."""
    assert set() == lane_after(5, 0)
    made = plan(
        round=9, accepted=(DELTA,), keep=0, listing=(kept(3, WEIGHTS),), budget=5
    )
    assert (kept(3, WEIGHTS),) == made.deletes
    assert 0 == made.adds


def test_a_small_budget_deletes_the_oldest_first() -> None:
    """What is left goes with later rounds, and replay still works."""
    found = lane_after(40, 2, budget=3)
    assert 40 - replayable(found, 40) >= 2
    assert len(found) < 30


def test_an_anchor_is_a_copy_of_what_lies_there() -> None:
    """It is written by the round after it, and moves no bytes."""
    made = plan(round=4, accepted=(DELTA,), keep=3, listing=(), budget=5)
    assert (WEIGHTS, kept(3, WEIGHTS)) in made.copies
    assert (DELTA.path, DELTA.kept(4)) in made.copies
    made = plan(round=5, accepted=(DELTA,), keep=3, listing=(), budget=5)
    assert ((DELTA.path, DELTA.kept(5)),) == made.copies


def test_files_of_other_people_are_left_alone() -> None:
    """Only names of the layout are deleted."""
    made = plan(round=9, accepted=(), keep=0, listing=("rounds/notes.txt",), budget=5)
    assert () == made.deletes
