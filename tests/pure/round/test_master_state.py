"""The leader's beginning, and the names of its attempts."""

import attrs
import pytest
from tests.pure.round.session import leading
from tests.pure.round.values import LIFE

from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.master_state import leads, nonce, pause_s


def test_every_attempt_has_another_nonce() -> None:
    """So that a manifest found on the lane is known to be one's own."""
    state = leading().state
    assert f"{LIFE}-0" == nonce(state)
    assert f"{LIFE}-1" == nonce(attrs.evolve(state, attempts=1))


def test_nobody_leads_before_a_manifest_was_seen() -> None:
    """Whatever the settings say."""
    assert not leads(leading().state)


def test_unsafe_limits_are_refused() -> None:
    """They would lose or double work."""
    with pytest.raises(ValueError, match="window: expected at least the staleness"):
        leading(limits=Limits(staleness=5, window=4))


@pytest.mark.parametrize("changes", [{"node": "a/b"}, {"life": "me"}])
def test_strange_names_are_refused(changes: dict[str, str]) -> None:
    """Wherever they come from."""
    with pytest.raises(ValueError, match=next(iter(changes))):
        leading(**changes)


def test_pauses_are_bounded() -> None:
    """By the settings."""
    state = leading(retry_initial_s=2.0, retry_max_s=9.0).state
    assert 1.0 <= pause_s(state, 0) <= 2.0
    assert pause_s(state, 50) <= 9.0
