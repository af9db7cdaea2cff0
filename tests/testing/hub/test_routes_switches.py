"""The emulator set from outside, as with curl."""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from huggingface_hub.errors import HfHubHTTPError

from speedtronic.testing.hub import KINDS, HubEmulator

RUN = "owner/run"


def send(hub: HubEmulator, path: str, fields: Any = None, method: str | None = None):
    data = None if fields is None else json.dumps(fields).encode()
    request = Request(f"{hub.endpoint}/emulator{path}", data, method=method)
    with urlopen(request) as reply:
        return json.load(reply)


def test_a_fault_is_injected_and_cleared(hub, api, client) -> None:
    """From any process."""
    send(hub, "/faults", {"kind": "expired-token", "times": None, "where": "info"})
    with pytest.raises(HfHubHTTPError) as raised:
        api.repo_info(RUN)
    assert 401 == raised.value.response.status_code
    send(hub, "/faults", method="DELETE")

    assert hub.repo(RUN).head == api.repo_info(RUN).sha


def test_a_schedule_is_set(hub, api) -> None:
    """By seed and rate."""
    send(hub, "/schedule", {"seed": 1, "rate": 1.0, "kinds": ["unknown-revision"]})
    with pytest.raises(HfHubHTTPError):
        api.repo_info(RUN)


def test_time_passes(hub) -> None:
    """For quotas and dates."""
    before = hub.clock.now()
    send(hub, "/clock", {"seconds": 3600})

    assert 3600 <= hub.clock.now() - before


def test_counts_and_kinds_are_shown_and_not_counted(hub, api) -> None:
    """Nor do they meet faults."""
    hub.faults.inject("server-error", times=None)
    with pytest.raises(HfHubHTTPError):
        api.repo_info(RUN)
    for _ in range(2):
        shown = send(hub, "")

    assert {"info 500": 1} == shown["requests"]
    assert {"server-error": 1} == shown["faults"]
    assert list(KINDS) == list(shown["kinds"])


@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        ("/faults", {"kind": "bussy"}, "expected one of busy"),
        ("/faults", {"times": 3}, "missing 1 required positional argument: 'kind'"),
        ("/faults", ["busy"], "expected an object"),
        ("/clock", {"hours": 3}, "unexpected keyword argument 'hours'"),
    ],
    ids=["kind", "missing", "list", "unknown"],
)
def test_a_mistake_is_answered(hub, path, fields, expected) -> None:
    """With what is wrong."""
    with pytest.raises(HTTPError) as raised:
        send(hub, path, fields)

    with raised.value as reply:
        assert expected in json.load(reply)["error"]
