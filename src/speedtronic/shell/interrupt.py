"""SIGINT and SIGTERM as a flag that is read between steps.

The first signal asks: the loop saves and the command ends with 128 plus the signal's
number (130 for Ctrl-C, 143 for SIGTERM). A second one is not asked twice: the process
ends at once with that same code, without cleaning up; whatever it was writing has a
temporary name.

Where several processes share a run, one may pass on that another was asked to stop;
that is no signal of its own, so that the first real one does not count as a second.

Python lets only the main thread catch signals; elsewhere this does nothing.
"""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Catches the signals while it is entered, and gives the handlers back after.

    >>> with Interrupt() as interrupt:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     interrupt.exit_code
    143
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._passed_on: int | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        """Whether a signal has asked to stop."""
        return self.number is not None

    @property
    def number(self) -> int | None:
        """Of the signal that asked first, if one did."""
        return self._passed_on if self._signal is None else self._signal

    @property
    def exit_code(self) -> int | None:
        """What the command returns: 128 plus the number, or None without a signal."""
        return None if self.number is None else 128 + self.number

    def pass_on(self, number: int) -> None:
        """Stop because another process of the run got a signal."""
        self._passed_on = number

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._previous[number] = signal.getsignal(number)
                signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            # None is a handler that was not set from Python and cannot be given back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._signal is not None:
            os._exit(128 + number)
        self._signal = number
