"""Waits end with a stop."""

import threading

import pytest

from speedtronic.shell.lanes.hub.waiting import Stopped, interruptible


def test_errors_come_through() -> None:
    """As they were raised, a timeout of the call's own included."""
    for error in (ValueError("mine"), TimeoutError("mine"), KeyboardInterrupt("mine")):

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error), match="mine"):
            interruptible(fail, threading.Event())


def test_a_stop_ends_a_wait_that_would_not_end() -> None:
    """The call itself goes on, and nobody waits for it."""
    stop, never = threading.Event(), threading.Event()
    threading.Timer(0.05, stop.set).start()

    with pytest.raises(Stopped):
        interruptible(never.wait, stop)
    never.set()


def test_after_a_stop_nothing_is_begun() -> None:
    """Not even what would be quick."""
    stop = threading.Event()
    stop.set()
    called: list[int] = []

    with pytest.raises(Stopped):
        interruptible(lambda: called.append(1), stop)
    assert [] == called
