"""An emulator with one repository, and a client that stays on loopback."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import CommitOperationAdd, HfApi, close_session, constants

from speedtronic.testing.hub import HubEmulator

RUN = "owner/run"


@pytest.fixture(autouse=True)
def on_loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No Xet, no telemetry; both would look for other servers."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    yield
    close_session()


@pytest.fixture
def hub() -> Iterator[HubEmulator]:
    with HubEmulator() as emulator:
        emulator.create_repo(RUN)
        yield emulator


@pytest.fixture
def api(hub: HubEmulator) -> HfApi:
    return HfApi(endpoint=hub.endpoint, token=hub.token)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The client's own waiting: noted, not waited for."""
    taken: list[float] = []
    monkeypatch.setattr(time, "sleep", taken.append)
    # By its name there, too: tests of lanes in this process may have replaced it.
    noted = SimpleNamespace(sleep=taken.append)
    monkeypatch.setattr("huggingface_hub.utils._http.time", noted)
    return taken


class Client:
    """What most tests do, in short."""

    def __init__(self, api: HfApi, cache: Path) -> None:
        self.api = api
        self._cache = cache

    def commit(self, files: dict[str, bytes], parent: str | None = None) -> str:
        adds = [CommitOperationAdd(name, content) for name, content in files.items()]
        done = self.api.create_commit(
            RUN, adds, commit_message="a commit", parent_commit=parent
        )
        return str(done.oid)

    def read(self, name: str, revision: str = "main") -> bytes:
        path = self.api.hf_hub_download(
            RUN, name, revision=revision, cache_dir=self._cache
        )
        return Path(path).read_bytes()

    @property
    def head(self) -> str:
        return str(self.api.repo_info(RUN).sha)


@pytest.fixture
def client(api: HfApi, tmp_path: Path) -> Client:
    return Client(api, tmp_path / "cache")
