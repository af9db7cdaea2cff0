"""An emulated Hub for the tests of lanes, and lanes on it whose time is not ours."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session, constants

from speedtronic.pure.config.base import Secret
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.testing.hub import HubEmulator


class FakeTime:
    """A clock, and a stop that lets time pass instead of waiting for it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits: list[float] = []
        self.stops_after: int | None = None  # waits

    def __call__(self) -> float:
        return self.now_s

    def is_set(self) -> bool:
        return self.stops_after is not None and len(self.waits) > self.stops_after

    def wait(self, timeout: float) -> bool:
        self.waits.append(timeout)
        self.now_s += timeout
        return self.is_set()


@pytest.fixture(scope="session")
def emulator() -> Iterator[HubEmulator]:
    """One for all tests; each has a repository of its own."""
    with pytest.MonkeyPatch.context() as patch, HubEmulator() as running:
        patch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        patch.setattr("huggingface_hub.utils._http.time", NoSleep())
        yield running
        close_session()


class NoSleep:
    """The client's ``time``, without its sleeps."""

    def sleep(self, seconds: float) -> None:
        pass


@pytest.fixture
def hub(emulator: HubEmulator) -> Iterator[HubEmulator]:
    """The emulator, without a fault from an earlier test."""
    emulator.faults.clear()
    yield emulator
    emulator.faults.clear()


_numbers = count()


@pytest.fixture
def repository(hub: HubEmulator) -> str:
    """A new private repository."""
    name = f"owner/run-{next(_numbers)}"
    hub.create_repo(name)
    return name


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def hub_options(
    hub: HubEmulator, tmp_path: Path, fake_time: FakeTime
) -> Callable[..., HubOptions]:
    """Options for the emulator; keywords replace them."""

    def make(**changes: Any) -> HubOptions:
        options: dict[str, Any] = {
            "token": Secret(hub.token),
            "endpoint": hub.endpoint,
            "cache": tmp_path / "cache",
            "stop": fake_time,
            "clock": fake_time,
            "timeout_s": 5.0,
        }
        return HubOptions(**{**options, **changes})

    return make


@pytest.fixture
def hub_lane(
    repository: str, hub_options: Callable[..., HubOptions]
) -> Callable[..., HubLane]:
    """Lanes in the repository of the test; keywords are options."""
    return lambda **changes: HubLane(repository, hub_options(**changes))
