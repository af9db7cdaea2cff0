"""Delivery behind the training: one at a time, the newest, told once."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.shell.samples import snapshot
from tests.shell.test_checkpoint_lane import stored, written

from speedtronic.errors import Unavailable
from speedtronic.shell.checkpoint import save, verify
from speedtronic.shell.checkpoint_delivery import FOLDER, Delivery
from speedtronic.shell.checkpoint_lane import LaneCheckpoints
from speedtronic.shell.lanes.memory import MemoryLane

PATIENCE_S = 60.0  # far more than any of these waits takes


class Gate(LaneCheckpoints):
    """Holds every upload until it is let through; fails while it is asked to."""

    def __init__(self) -> None:
        super().__init__("dir:there", "tiny", MemoryLane)
        self.sent: list[tuple[int, list[str]]] = []
        self.failures = 0
        self.began, self.let = threading.Semaphore(0), threading.Semaphore(0)

    def store(self, record: Path, checkpoint: Path) -> bool:
        """See the real one."""
        self.began.release()
        assert self.let.acquire(timeout=PATIENCE_S)
        if self.failures:
            self.failures -= 1
            raise Unavailable("nobody answers")
        files = sorted(verify(checkpoint).files)
        self.sent.append((verify(checkpoint).step, files))
        return True


@contextmanager
def delivery(target: LaneCheckpoints, folder: Path) -> Iterator[Delivery]:
    """One whose attempts do not wait for each other."""
    stop = threading.Event()
    with Delivery(target, folder, stop, delay=lambda n: 0.0) as running:
        yield running


def open_gate(gate: Gate, times: int) -> Callable[[], None]:
    return lambda: [gate.let.release() for _ in range(times)] and None  # type: ignore[func-returns-value]


def test_what_waits_is_replaced_by_what_is_newer(tmp_path: Path) -> None:
    """One upload is in flight; offering never waits for it."""
    gate = Gate()
    with delivery(gate, tmp_path) as running:
        for step in (1, 2, 3):
            _, checkpoint = written(tmp_path, step)
            running.offer(checkpoint)
            if step == 1:
                assert gate.began.acquire(timeout=PATIENCE_S)
        assert not running.idle
        open_gate(gate, 9)()
    assert [1, 3] == [step for step, _ in gate.sent]
    assert not (tmp_path / FOLDER).exists()


def test_retention_and_replacement_do_not_reach_what_is_on_its_way(
    tmp_path: Path,
) -> None:
    """It is checked, byte for byte, when its turn comes."""
    gate = Gate()
    with delivery(gate, tmp_path) as running:
        _, checkpoint = written(tmp_path, 1)
        running.offer(checkpoint)
        save(tmp_path, snapshot(step=1, values={"other": 1}), replace=True)
        open_gate(gate, 1)()
    assert [1] == [step for step, _ in gate.sent]


def test_an_outage_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And its end; nothing is lost."""
    gate = Gate()
    gate.failures = 50
    with caplog.at_level(logging.INFO), delivery(gate, tmp_path) as running:
        running.offer(written(tmp_path, 1)[1])
        open_gate(gate, 51)()
    told = [line for line in caplog.messages if "delivering the last" not in line]

    assert [
        "checkpoint.lane: not delivered, tried again: nobody answers",
        "dir:there takes checkpoints again, after 50 failures",
    ] == told
    assert [1] == [step for step, _ in gate.sent]


def test_the_end_does_not_wait_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A lane that hangs is left behind; the checkpoint stays where it is."""
    gate = Gate()
    with Delivery(gate, tmp_path, threading.Event(), last_s=(0.0, 0.0)) as running:
        running.offer(written(tmp_path, 1)[1])
    (line,) = [r.message for r in caplog.records if r.levelname == "ERROR"]
    open_gate(gate, 1)()

    assert line.startswith("the last checkpoint did not reach dir:there in 0 s")


def test_weights_that_are_not_finite_are_not_delivered(tmp_path: Path) -> None:
    """Nothing goes on from them."""
    written(tmp_path, 1)
    bad = save(tmp_path, snapshot(step=2, finite=False))
    target = stored(MemoryLane())
    with delivery(target, tmp_path) as running:
        running.offer(bad)
    assert {} == dict(target.look().steps)


def test_a_mistake_of_ours_is_told_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread goes on with the next."""
    gate = Gate()
    real = gate.store

    def broken(record: Path, checkpoint: Path) -> bool:
        gate.store = real  # type: ignore[method-assign]
        raise ZeroDivisionError("never")

    gate.store = broken  # type: ignore[method-assign]
    with delivery(gate, tmp_path) as running:
        running.offer(written(tmp_path, 1)[1])
        open_gate(gate, 1)()
    assert [1] == [step for step, _ in gate.sent]
    assert "a checkpoint was not delivered" in caplog.messages
