"""The bytes on the wire that the client is picky about."""

import json
from http.client import HTTPConnection

import pytest

from speedtronic.testing.hub import HubEmulator

RUN = "owner/run"


@pytest.fixture
def wire(hub: HubEmulator):
    connection = HTTPConnection(hub.endpoint.removeprefix("http://"))
    yield connection
    connection.close()


def ask(wire, hub, method, path, body=None, **headers):
    wire.request(
        method, path, body, {"Authorization": f"Bearer {hub.token}", **headers}
    )
    reply = wire.getresponse()
    return reply, reply.read()


def test_a_connection_is_kept_whatever_the_answer(hub, wire) -> None:
    """A body that nobody wanted is read to its end."""
    ask(wire, hub, "GET", "/api/whoami-v2")
    socket = wire.sock
    for path in ("/nowhere", f"/api/models/{RUN}/commit/none", "/api/repos/create"):
        reply, _ = ask(wire, hub, "POST", path, b"x" * 100_000)
        assert reply.status in (400, 404)
    reply, _ = ask(wire, hub, "GET", "/api/whoami-v2")

    assert (200, True) == (reply.status, socket is wire.sock)


def test_a_body_may_come_in_chunks(hub, wire) -> None:
    """Of which nobody knows the length before."""
    chunks = [b'{"name": "ne', b'w", "organization": null}']
    reply, body = ask(wire, hub, "POST", "/api/repos/create", iter(chunks))

    assert (200, "owner/new") == (reply.status, json.loads(body)["name"])


def test_a_head_has_the_length_of_the_body_that_it_leaves_out(hub, wire) -> None:
    """And the connection is in step after it."""
    hub.repo(RUN).write({"a": b"12345"})
    reply, body = ask(wire, hub, "HEAD", f"/{RUN}/resolve/main/a")
    assert ("5", b"") == (reply.getheader("Content-Length"), body)

    assert b"12345" == ask(wire, hub, "GET", f"/{RUN}/resolve/main/a")[1]


@pytest.mark.parametrize(
    ("wanted", "status", "got", "span"),
    [
        ("bytes=1-", 206, b"2345", "bytes 1-4/5"),
        ("bytes=1-2", 206, b"23", "bytes 1-2/5"),
        ("bytes=3-99", 206, b"45", "bytes 3-4/5"),
        ("bytes=5-", 416, None, "bytes */5"),
        ("nonsense", 200, b"12345", None),
    ],
)
def test_a_range_is_a_part(hub, wire, wanted, status, got, span) -> None:
    """To go on where a connection broke."""
    hub.repo(RUN).write({"a": b"12345"})
    reply, body = ask(wire, hub, "GET", f"/{RUN}/resolve/main/a", Range=wanted)

    assert (status, span) == (reply.status, reply.getheader("Content-Range"))
    assert got in (None, body)


def test_what_is_unforeseen_does_not_look_like_an_outage(hub, wire) -> None:
    """A 5xx would be tried again for ever."""
    reply, body = ask(wire, hub, "POST", "/api/repos/create", b"{}")

    assert 400 == reply.status
    assert "emulator: KeyError: 'name'" == json.loads(body)["error"]


def test_errors_say_the_same_in_header_and_body(hub, wire) -> None:
    """The client reads either."""
    reply, body = ask(wire, hub, "GET", "/api/models/owner/none")

    assert (404, "RepoNotFound") == (reply.status, reply.getheader("X-Error-Code"))
    assert reply.getheader("X-Error-Message") == json.loads(body)["error"]
