"""The worker's beginning: names and streams."""

import pytest
from tests.pure.round.values import LIFE, LINEAGE

from speedtronic.pure.round.worker_state import WorkerSettings, retry_s, start_worker


def settings(**changes: object) -> WorkerSettings:
    known = {"node": "node-1", "life": LIFE, "lineage": LINEAGE}
    return WorkerSettings(**{**known, **changes})  # type: ignore[arg-type]


def test_every_fresh_start_draws_another_stream() -> None:
    """From the life, which is drawn once by whoever starts a process."""
    streams = {
        start_worker(settings(life=life), 0.0).record.stream
        for life in ("aa" * 8, "bb" * 8)
    }
    assert 2 == len(streams)


@pytest.mark.parametrize("changes", [{"node": "a/b"}, {"life": "me"}])
def test_strange_names_are_refused(changes: dict[str, str]) -> None:
    """Wherever they come from, the environment included."""
    with pytest.raises(ValueError, match=next(iter(changes))):
        start_worker(settings(**changes), 0.0)


def test_waits_are_bounded() -> None:
    """By the settings."""
    state = start_worker(settings(retry_initial_s=2.0, retry_max_s=9.0), 0.0)
    assert 1.0 <= retry_s(state, 0) <= 2.0
    assert retry_s(state, 50) <= 9.0
