"""What a run will take: every number by hand for a round example."""

from typing import Any

import attrs
import pytest

from speedtronic.pure.budget import Budget
from speedtronic.pure.plan import Fleet, Machine, plan

# 100 MB each way: 8 s at 100 Mbit/s. A round is 100 s.
MACHINE = Machine(
    step_s=0.5,
    tokens=1000,
    memory_bytes=1,
    delta_bytes=100_000_000,
    global_bytes=100_000_000,
    momentum_bytes=50_000_000,
)
FLEET = Fleet(nodes=3, steps=1000, inner_steps=200, bits_per_s=1e8, poll_s=10.0)


def of(**changes: Any) -> Fleet:
    """The fleet, set otherwise."""
    return attrs.evolve(FLEET, **changes)


def test_time_and_rounds() -> None:
    """Training does not wait for the lane, so the time is that of the steps."""
    found = plan(MACHINE, FLEET)

    assert (100.0, 5) == (found.round_s, found.rounds)
    assert 1000 * 0.5 / 3600 == found.hours
    assert 3 * 1000 * 1000 == found.tokens
    assert 0 == found.lost_share
    assert plan(MACHINE, of(steps=1001)).rounds == 6


def test_a_worker_sends_a_delta_and_fetches_the_global() -> None:
    """Once a round; both in an hour of 36 rounds."""
    found = plan(MACHINE, FLEET)

    assert 8 == found.upload_s
    assert 16 / 100 == found.worker_link
    assert (3.6e9, 3.6e9) == (found.worker.up, found.worker.down)


def test_the_leader_also_fetches_deltas_and_publishes() -> None:
    """Three deltas, the model and half as much of momentum."""
    found = plan(MACHINE, FLEET)

    assert (16 + 24 + 8 + 4) / 100 == found.leader_link
    assert 36 * 2.5e8 == found.leader.up
    assert 36 * 4e8 == found.leader.down
    assert 16 + 36 + 10 == found.answer_s


@pytest.mark.parametrize(
    ("wait_s", "lost_s"), [(0.0, 0.0), (30.0, 30.0), (1000.0, 62.0)]
)
def test_who_waits_for_decisions_loses_time(wait_s: float, lost_s: float) -> None:
    """As long as the answer takes, but no longer than it wants to."""
    found = plan(MACHINE, of(wait_s=wait_s))

    assert 100 + lost_s == found.round_s
    assert lost_s / (100 + lost_s) == found.lost_share
    assert (1000 * 0.5 + 5 * lost_s) / 3600 == found.hours


def test_deltas_lie_back_as_long_as_they_travel() -> None:
    """One round for the work, and as many as the upload takes."""
    assert 2 == plan(MACHINE, FLEET).least_staleness
    assert 2 == plan(MACHINE, of(bits_per_s=8e6)).least_staleness  # 100 s
    assert 4 == plan(MACHINE, of(bits_per_s=3e6)).least_staleness  # 267 s


def test_the_fewest_steps_leave_the_leaders_link_half_of_the_time() -> None:
    """52 s of 104; with waiting, nodes train 95 % of the time."""
    assert 208 == plan(MACHINE, FLEET).least_inner_steps
    waiting = plan(MACHINE, of(wait_s=1000.0))
    assert 62 * 19 / 0.5 == pytest.approx(waiting.least_inner_steps, abs=1)


def test_a_lane_that_rations_commits_bounds_them_too() -> None:
    """As the budget says; a lease that takes all of them leaves no choice."""
    fast = attrs.evolve(MACHINE, step_s=0.01)
    found = plan(fast, of(budget=Budget(), bits_per_s=1e12))
    assert found.least_inner_steps == 11250
    assert 128 < found.commits
    assert plan(fast, of(budget=Budget(), ttl_s=30.0)).least_inner_steps is None
    assert plan(fast, of(ttl_s=30.0)).least_inner_steps is not None


def test_money_is_nodes_by_hours() -> None:
    """None where no price is known."""
    assert plan(MACHINE, FLEET).money is None
    found = plan(MACHINE, of(price_per_hour=2.0))
    assert 3 * 2.0 * found.hours == found.money


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"nodes": 0}, "nodes is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"inner_steps": -1}, "inner_steps is -1"),
        ({"bits_per_s": float("inf")}, "bits_per_s is inf"),
        ({"wait_s": -1.0}, "wait_s is -1.0"),
        ({"price_per_hour": float("nan")}, "price is nan"),
    ],
)
def test_numbers_that_mean_nothing(changes: dict[str, Any], told: str) -> None:
    """Each is named."""
    with pytest.raises(ValueError, match=told):
        plan(MACHINE, of(**changes))


def test_a_step_takes_some_time() -> None:
    """Or nothing could be said."""
    with pytest.raises(ValueError, match="step_s is 0.0"):
        plan(attrs.evolve(MACHINE, step_s=0.0), FLEET)
