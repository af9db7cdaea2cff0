"""Requests: bounded in time, ended by a stop, and silent about the token."""

import re
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from speedtronic.errors import Denied, LaneError, Unavailable
from speedtronic.pure.config.base import Secret
from speedtronic.shell import lanes
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.hub.client import Client
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.shell.lanes.hub.trouble import Failed
from speedtronic.testing.hub import HubEmulator


@pytest.fixture
def client(repository: str, hub_options: Callable[..., HubOptions]) -> Client:
    return Client(repository, hub_options())


@pytest.mark.parametrize(
    "where", ["resolve-head", "tree", "commit", "preupload", "lfs-batch", "lfs-verify"]
)
def test_no_request_waits_for_ever(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], where: str
) -> None:
    """Not ours, and not those that the client makes without a timeout."""
    lane = hub_lane(timeout_s=0.1)
    hub.faults.inject("stall", where=where, times=None)
    with pytest.raises(Unavailable, match="no answer from the Hub"):
        lane.commit({"a.safetensors": b"1"}, parent=ANY)


def test_a_stop_ends_every_wait(
    hub: HubEmulator, hub_lane: Callable[..., HubLane]
) -> None:
    """Also that for an answer."""
    stop = threading.Event()
    lane = hub_lane(stop=stop, timeout_s=60.0)
    hub.faults.inject("stall")
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(Unavailable, match="stopped"):
        lane.head()
    with pytest.raises(Unavailable, match="stopped"):
        lane.commit({"a": b"1"}, parent=ANY)


def test_a_stop_ends_the_waits_between_attempts(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], fake_time: Any
) -> None:
    """There is no sleep that it would have to outlast."""
    fake_time.stops_after = 1
    hub.faults.inject("busy", times=None)
    with pytest.raises(Unavailable, match="stopped before the next"):
        hub_lane().commit({"a": b"1"}, parent=ANY)
    assert 2 == len(fake_time.waits)


def test_a_session_of_the_users_own_is_bounded_too(client: Client) -> None:
    """Whatever made it; its hooks stay, and ours is added once."""
    seen: list[str] = []
    base = huggingface_hub.get_session()
    client.get(client.address("/refs"))
    hooks = dict(base.event_hooks)
    try:
        base.event_hooks = {"request": [lambda r: seen.append(r.url.path)]}
        client.get(client.address("/refs"))
        client.get(client.address("/refs"))

        assert 2 == len(seen)
        assert 2 == len(base.event_hooks["request"])
    finally:
        base.event_hooks = hooks


@pytest.mark.parametrize("seconds", [7, 300])
@pytest.mark.parametrize("kind", ["rate-limit", "retry-after"])
def test_a_rate_limit_closes_one_kind_of_request(
    hub: HubEmulator, client: Client, fake_time: Any, kind: str, seconds: int
) -> None:
    """For as long as the Hub says; the others go on."""
    hub.faults.inject(kind, where="refs", seconds=seconds)
    with pytest.raises(Failed):
        client.get(client.address("/refs"))
    asked = hub.counts().of("refs")
    with pytest.raises(Failed) as caught:
        client.get(client.address("/refs"))
    assert float(seconds) == caught.value.trouble.retry_after_s
    assert asked == hub.counts().of("refs")
    client.metadata(".gitattributes", "main")
    fake_time.now_s += seconds
    client.get(client.address("/refs"))


def test_an_endpoint_may_end_in_a_slash(
    hub: HubEmulator, repository: str, hub_options: Callable[..., HubOptions]
) -> None:
    """As people write it."""
    client = Client(repository, hub_options(endpoint=hub.endpoint + "/"))

    assert client.get(client.address("/refs"))[0]["branches"]


def test_a_closed_port_is_told_as_unreachable(
    repository: str, hub_options: Callable[..., HubOptions]
) -> None:
    """Nothing was sent, so nothing was written."""
    lane = HubLane(repository, hub_options(endpoint="http://127.0.0.1:9"))
    with pytest.raises(Unavailable, match="the Hub cannot be reached"):
        lane.head()


def test_offline_mode_is_told(
    hub_lane: Callable[..., HubLane], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name of its switch."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(Denied, match="HF_HUB_OFFLINE is set"):
        hub_lane().head()


def test_a_proxy_is_not_the_hub(
    hub: HubEmulator, hub_lane: Callable[..., HubLane]
) -> None:
    """A page of HTML with status 200 or 404 says nothing about the repository."""
    lane = hub_lane()
    lane._client.repository = "no/such/route"
    with pytest.raises(Unavailable):
        lane.head()


@pytest.mark.parametrize(
    "kind",
    ["expired-token", "storm", "dropped-request", "gated", "unknown-repository"]
    + ["storage-quota", "truncated", "commit-quota", "too-many", "stall"],
)
def test_no_failure_shows_the_token(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], kind: str
) -> None:
    """Neither in its text nor in what a traceback prints of its causes."""
    lane = hub_lane(timeout_s=0.1)
    lane.commit({"a.safetensors": b"1"}, parent=ANY)
    hub.faults.inject(kind, times=None)
    for call in (
        lane.head,
        lambda: lane.read("a.safetensors", lane.head() or ""),
        lambda: lane.commit({"b.safetensors": b"2"}, parent=ANY),
    ):
        try:
            call()
        except LaneError as error:
            told = "".join(traceback.format_exception(error))
            assert hub.token not in told + repr(error) + str(vars(error))
            assert error.__cause__ is None


def test_what_the_hub_repeats_of_the_token_is_not_shown(client: Client) -> None:
    """It may be of another form than tokens have today."""
    secret = client.options.token
    assert secret is not None

    assert "no *** here" == client.clean(f"no {secret.reveal()} here")
    assert "hf_***" in client.clean("hf_" + "x" * 34)


def test_the_token_comes_from_the_environment(
    hub: HubEmulator,
    hub_options: Callable[..., HubOptions],
    repository: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As huggingface_hub does it; an argument goes first."""
    monkeypatch.setenv("HF_TOKEN", hub.token)
    lane = HubLane(repository, hub_options(token=None))
    assert lane.head() is None

    monkeypatch.setenv("HF_TOKEN", "hf_" + "x" * 34)
    with pytest.raises(Denied, match="the token is missing, wrong or expired"):
        HubLane(repository, hub_options(token=None)).head()
    assert HubLane(repository, hub_options(token=Secret(hub.token))).head() is None


def test_one_module_knows_the_client() -> None:
    """Of the lanes; so there is one place that a new release can break."""
    folder = Path(lanes.__file__).parent
    imports = re.compile(r"^\s*(from|import) (huggingface_hub|httpx)", re.M)
    found = [p.name for p in folder.rglob("*.py") if imports.search(p.read_text())]

    assert ["client.py"] == found
