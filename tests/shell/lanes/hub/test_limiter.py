"""The hourly budget of commits, as a process keeps it."""

from speedtronic.shell.lanes.hub.limiter import CommitLimiter


def test_commits_are_spread_over_the_hour() -> None:
    """A burst, and then one at a time; who waits as told is served."""
    now_s = 0.0
    limiter = CommitLimiter(64.0, clock=lambda: now_s)
    assert [0.0] * 8 == [limiter.take() for _ in range(8)]

    wait_s = limiter.take()
    assert 0.0 < wait_s
    now_s += wait_s + 1e-6
    assert 0.0 == limiter.take() < limiter.take()


def test_a_commit_that_was_not_made_is_given_back() -> None:
    """It costs the Hub's quota nothing."""
    limiter = CommitLimiter(8.0, clock=lambda: 0.0)
    limiter.take()
    limiter.give_back()

    assert 0.0 == limiter.take() < limiter.take()
