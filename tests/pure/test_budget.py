"""What fits into the quotas of a repository."""

import attrs
import pytest

from speedtronic.pure import budget
from speedtronic.pure.budget import Budget, Rhythm

QUIET = Rhythm(nodes=4, inner_steps=500, step_s=1.0, ttl_s=600.0)


def test_a_leader_renews_while_it_has_nothing_to_publish() -> None:
    """A lease of a minute costs three commits a minute, whatever the round."""
    slow = attrs.evolve(QUIET, inner_steps=36_000, ttl_s=60.0)

    assert 4 / 10 + 180 == budget.load(slow).commits


def test_publishing_renews_too() -> None:
    """A leader with fast rounds commits once in each."""
    fast = attrs.evolve(QUIET, inner_steps=100)

    assert 36 * (4 + 1) == budget.load(fast).commits


@pytest.mark.parametrize("ttl_s", [60.0, 300.0, 600.0, 6000.0])
@pytest.mark.parametrize("nodes", [1, 4, 16, 100])
def test_the_least_steps_fit_and_one_fewer_does_not(nodes: int, ttl_s: float) -> None:
    """The advice is the smallest that holds."""
    rhythm = attrs.evolve(QUIET, nodes=nodes, ttl_s=ttl_s)
    least = budget.least_inner_steps(Budget(), rhythm)
    if least is None:
        assert 3600 / (ttl_s / budget.RENEWALS_PER_TTL) >= Budget().commits
        return
    at = budget.load(attrs.evolve(rhythm, inner_steps=least)).commits
    below = budget.load(attrs.evolve(rhythm, inner_steps=least - 1)).commits

    assert at <= Budget().commits * (1 + 1e-9) < below


def test_a_lease_that_takes_everything_is_named() -> None:
    """No number of steps would help."""
    told = budget.problems(Budget(), attrs.evolve(QUIET, inner_steps=10**6, ttl_s=60.0))

    assert 1 == len(told)
    assert "make it 338 s or longer" in told[0]


def test_polling_costs_requests() -> None:
    """Of all nodes together, since they may share a token."""
    eager = attrs.evolve(QUIET, nodes=200, inner_steps=36_000, poll_s=1.0)
    asked = budget.load(eager)
    told = budget.problems(Budget(commits=1e6), eager)

    assert 200 * 300 <= asked.file_requests
    assert ["file requests" in line for line in told] == [True]
    assert "distributed.poll_interval" in told[0]


def test_the_api_is_asked_only_when_something_changed() -> None:
    """A look without news is one cheap request."""
    eager = attrs.evolve(QUIET, poll_s=1.0)

    assert budget.load(eager).api_requests < 200


@pytest.mark.parametrize("field", [f.name for f in attrs.fields(Rhythm)])
def test_numbers_that_make_no_sense_are_refused(field: str) -> None:
    """By name."""
    with pytest.raises(ValueError, match=f"{field} is 0"):
        budget.load(attrs.evolve(QUIET, **{field: 0}))


def test_a_share_leaves_one_for_the_leader() -> None:
    """Nodes and leader get the same."""
    assert 128.0 == 16 * budget.share(128.0, 15)
    with pytest.raises(ValueError, match="nodes is 0"):
        budget.share(128.0, 0)


def test_a_budget_below_one_is_refused() -> None:
    """Nothing could ever be sent."""
    with pytest.raises(ValueError, match="per_hour is 0.5"):
        budget.full(0.5, 0.0)


@pytest.mark.parametrize("inner_steps", [100, 500, 5000])
def test_as_many_nodes_fit_and_one_more_does_not(inner_steps: int) -> None:
    """The number that is told is the largest that holds."""
    rhythm = attrs.evolve(QUIET, inner_steps=inner_steps)
    most = budget.most_nodes(Budget(), rhythm)

    fitting, more = (
        budget.load(attrs.evolve(rhythm, nodes=n)).commits for n in (most, most + 1)
    )

    assert fitting <= Budget().commits < more


def test_a_lease_that_takes_all_commits_leaves_no_node() -> None:
    """Nor any length of a round."""
    busy = attrs.evolve(QUIET, ttl_s=60.0)

    assert 0 == budget.most_nodes(Budget(), busy)
    assert budget.least_round_s(Budget(), nodes=30, ttl_s=60.0) is None
