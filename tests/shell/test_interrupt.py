"""Signals as a flag, and a second one as an end."""

import signal
import subprocess
import sys
import threading

import pytest

from speedtronic.shell.interrupt import SIGNALS, Interrupt


def test_without_a_signal_nothing_is_asked() -> None:
    """The flag is down and there is no code."""
    with Interrupt() as interrupt:
        assert not interrupt
        assert interrupt.exit_code is None


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_raises_the_flag(number: signal.Signals, code: int) -> None:
    """And nothing else: no exception comes between two statements."""
    with Interrupt() as interrupt:
        signal.raise_signal(number)
        assert interrupt
        assert code == interrupt.exit_code
    assert code == interrupt.exit_code


def test_the_previous_handlers_come_back() -> None:
    """Also after an error inside."""
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(KeyError):
        with Interrupt():
            assert before != [signal.getsignal(number) for number in SIGNALS]
            raise KeyError

    assert before == [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize("real", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_passed_on_is_not_a_first_one(real: signal.Signals) -> None:
    """The launcher's own, which comes after it, must not end the process at once."""
    with Interrupt() as interrupt:
        interrupt.pass_on(signal.SIGTERM)
        assert interrupt
        assert 143 == interrupt.exit_code
        signal.raise_signal(real)
        assert 128 + real == interrupt.exit_code


def test_another_thread_does_nothing() -> None:
    """Only the main thread may catch signals."""
    before = [signal.getsignal(number) for number in SIGNALS]
    seen = []

    def run() -> None:
        with Interrupt() as interrupt:
            seen.append([signal.getsignal(number) for number in SIGNALS])
            seen.append(interrupt.exit_code)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert [before, None] == seen


TWICE = """
import signal, sys
from speedtronic.shell.interrupt import Interrupt
with Interrupt():
    signal.raise_signal(signal.Signals[sys.argv[1]])
    print("asked", flush=True)
    try:
        signal.raise_signal(signal.Signals[sys.argv[2]])
    finally:
        print("not reached", flush=True)
"""


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [("SIGINT", "SIGINT", 130), ("SIGINT", "SIGTERM", 143), ("SIGTERM", "SIGINT", 130)],
)
def test_a_second_signal_ends_the_process_at_once(
    first: str, second: str, code: int
) -> None:
    """With its own code, and before anything else runs."""
    done = subprocess.run(
        [sys.executable, "-c", TWICE, first, second], capture_output=True, text=True
    )
    assert (code, "asked\n", "") == (done.returncode, done.stdout, done.stderr)
