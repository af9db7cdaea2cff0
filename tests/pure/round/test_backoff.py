"""Waiting: doubling, bounded, and not together."""

from speedtronic.pure.round.backoff import delay_s, share


def test_the_wait_doubles_up_to_a_longest_one() -> None:
    """Between half of it and all of it."""
    for attempt in (*range(12), 10_000):
        longest = min(60.0, 2.0**attempt) if attempt < 100 else 60.0
        assert longest / 2 <= delay_s(1.0, 60.0, attempt, "a") <= longest


def test_nodes_do_not_wait_together() -> None:
    """The share depends on who waits, and on nothing else."""
    waits = {delay_s(1.0, 60.0, 9, f"node-{i}") for i in range(20)}
    assert 20 == len(waits)
    assert delay_s(1.0, 60.0, 9, "a") == delay_s(1.0, 60.0, 9, "a")


def test_shares_fill_the_interval() -> None:
    """Evenly enough for jitter."""
    shares = [share(str(i)) for i in range(200)]
    assert min(shares) < 0.05
    assert max(shares) > 0.95
