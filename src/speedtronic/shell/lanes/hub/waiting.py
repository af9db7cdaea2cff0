"""Calls that a stop interrupts, whatever they wait for."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

from speedtronic.shell.lanes.hub.options import Stop

T = TypeVar("T")
_LOOK_S = 0.1  # between two looks at the stop


class Stopped(Exception):
    """The stop came first; what was waited for may still happen."""


def interruptible(call: Callable[[], T], stop: Stop) -> T:
    """What ``call`` returns or raises, or `Stopped` as soon as ``stop`` is set.

    The call runs in a thread of its own, because the client's waits cannot be ended
    from outside. After a stop nobody waits for it any more; it must own whatever it
    touches.

    >>> interruptible(lambda: 1, threading.Event())
    1
    """
    if stop.is_set():
        raise Stopped
    answer: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # handed over to whoever waits
            answer.set_exception(error)

    threading.Thread(target=run, name="speedtronic-hub", daemon=True).start()
    while not concurrent.futures.wait([answer], timeout=_LOOK_S).done:
        if stop.is_set():
            raise Stopped
    return answer.result()
