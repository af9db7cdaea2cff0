"""Quotas by the emulated clock."""

import pytest

from speedtronic.testing.hub.messages import Refused
from speedtronic.testing.hub.quota import Clock, Limits, Quotas


def test_a_commit_that_fails_is_not_counted() -> None:
    """The quota is of commits, not of attempts."""
    quotas = Quotas(Limits(commits_per_hour=1), Clock())
    with pytest.raises(KeyError):
        with quotas.commit("me/run"):
            raise KeyError
    with quotas.commit("me/run"):
        pass
    with pytest.raises(Refused):
        with quotas.commit("me/run"):
            pass
    with quotas.commit("me/another"):
        pass


@pytest.mark.parametrize(
    ("passed_s", "expected"),
    [(0, "about 1 hour"), (1201, "40 minutes"), (3590, "1 minutes")],
)
def test_the_wait_is_in_words(passed_s, expected) -> None:
    """In minutes, or as about an hour."""
    clock = Clock()
    quotas = Quotas(Limits(commits_per_hour=1), clock)
    with quotas.commit("me/run"):
        clock.advance(passed_s)
    with pytest.raises(Refused, match=f"in {expected}"):
        with quotas.commit("me/run"):
            pass
