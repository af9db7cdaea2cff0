"""Reading ahead."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from speedtronic.errors import DataError
from speedtronic.shell.data.base import StepBatch
from speedtronic.shell.data.prefetch import Prefetcher


class Steps:
    """Data whose batches say their step; step 5 may be broken."""

    def __init__(self, broken: int | None = None, threaded: bool = True) -> None:
        self.threaded, self._broken = threaded, broken
        self.read: list[int] = []
        self.threads: set[str] = set()
        self.ended = False

    def steps(self, first: int) -> Iterator[StepBatch]:
        """The steps without end."""
        try:
            while True:
                self.read.append(first)
                self.threads.add(threading.current_thread().name)
                if first == self._broken:
                    raise DataError(f"step {first} is broken")
                yield StepBatch((), first, 0)
                first += 1
        finally:
            self.ended = True


def prefetcher(data: Any, first: int = 0, depth: int = 2) -> Prefetcher:
    """A prefetcher over stand-in data."""
    return Prefetcher(data, first, depth)


@pytest.mark.parametrize("depth", [1, 2, 7])
@pytest.mark.parametrize("threaded", [True, False])
def test_the_order_is_that_of_the_data(depth: int, threaded: bool) -> None:
    """Steps come one by one, from the first asked for."""
    with prefetcher(Steps(threaded=threaded), 3, depth) as ahead:
        assert [3, 4, 5, 6] == [ahead.next().samples for _ in range(4)]


@pytest.mark.parametrize("threaded", [True, False])
def test_an_error_belongs_to_its_step(threaded: bool) -> None:
    """Steps before it are delivered; its own message is raised, again and again."""
    with prefetcher(Steps(broken=2, threaded=threaded), depth=5) as ahead:
        assert [0, 1] == [ahead.next().samples for _ in range(2)]
        with pytest.raises(DataError, match="step 2 is broken"):
            ahead.next()


@pytest.mark.parametrize("threaded", [True, False])
def test_an_error_is_not_followed_by_a_hang(threaded: bool) -> None:
    """Whoever asks again gets the error again."""
    with prefetcher(Steps(broken=0, threaded=threaded)) as ahead:
        for _ in range(3):
            with pytest.raises(DataError, match="step 0 is broken"):
                ahead.next()


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_closing_ends_the_thread(taken: int) -> None:
    """No thread is left, whether the queue is full, empty or between."""
    data = Steps()
    ahead = prefetcher(data)
    for _ in range(taken):
        ahead.next()
    ahead.close()

    assert "prefetch" not in {thread.name for thread in threading.enumerate()}
    assert data.ended


def test_depth_is_a_bound() -> None:
    """Not more is read ahead than asked for, and one in the hand."""
    data = Steps()
    with prefetcher(data, depth=2) as ahead:
        ahead.next()
    assert len(data.read) <= 5


def test_data_that_only_its_own_thread_may_read() -> None:
    """It is read in the thread that asks."""
    data = Steps(threaded=False)
    with prefetcher(data) as ahead:
        ahead.next()

    assert {threading.current_thread().name} == data.threads
