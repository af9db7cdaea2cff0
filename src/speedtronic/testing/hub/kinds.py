"""The kinds of fault: what each does to a request that meets it.

A kind is a function of a `Scene`: it may answer instead of the Hub, let the Hub
answer and spoil that, or let something happen behind the client's back. Where the
real Hub was seen to do this, its status, headers and words are used.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from speedtronic.testing.hub.messages import (
    Refused,
    Reply,
    Request,
    bad_token,
    commit_quota,
    disabled,
    gated,
    no_repository,
    no_revision,
    repository_busy,
    stale_parent,
    storage_full,
    told,
    too_many,
)
from speedtronic.testing.hub.repository import Repository


@attrs.frozen
class Fault:
    """A kind, with its options."""

    kind: str
    options: Mapping[str, Any]


@attrs.frozen
class Scene:
    """What a fault may act upon."""

    options: Mapping[str, Any]
    request: Request
    answer: Callable[[Request], Reply]  # what the Hub would do
    repository: Callable[[], Repository]  # the one that the request is about
    postpone: Callable[[int, Callable[[], object]], None]  # by a number of requests


@attrs.frozen
class Kind:
    """One kind of fault."""

    play: Callable[[Scene], Reply]
    where: tuple[str, ...]  # patterns of endpoints where it makes sense
    text: str  # what the client sees
    options: Mapping[str, Any] = attrs.field(factory=dict)  # with their defaults


def _refuse(make: Callable[[Scene], Refused]) -> Callable[[Scene], Reply]:
    def play(scene: Scene) -> Reply:
        raise make(scene)

    return play


def _rate_limit(scene: Scene) -> Refused:
    limit = f'"api";r=0;t={scene.options["seconds"]}'
    policy = '"fixed window";"api";q=1000;w=300'
    return too_many({"RateLimit": limit, "RateLimit-Policy": policy})


def _retry_after(scene: Scene) -> Refused:
    return too_many({"Retry-After": str(scene.options["seconds"])})


def _broken(status: int) -> Reply:
    """A 5xx as a proxy answers it: HTML, nothing of the Hub's own headers."""
    page = f"<html><body><h1>{status}</h1></body></html>".encode()
    return Reply(status, page, {"Content-Type": "text/html"})


def _storm(scene: Scene) -> Reply:
    return _broken((500, 502, 503, 504)[scene.request.number % 4])


def _error_after(scene: Scene) -> Reply:
    scene.answer(scene.request)
    return told({"error": "Internal Error"}, 500)


def _dropped_reply(scene: Scene) -> Reply:
    return attrs.evolve(scene.answer(scene.request), dropped=True)


def _late(scene: Scene) -> Reply:
    scene.postpone(scene.options["requests"], lambda: scene.answer(scene.request))
    return _broken(504)


def _stall(scene: Scene) -> Reply:
    reply = scene.answer(scene.request) if scene.options["applied"] else Reply()
    return attrs.evolve(reply, delay_s=scene.options["seconds"], dropped=True)


def _stalled_body(scene: Scene) -> Reply:
    reply = scene.answer(scene.request)
    half, pause = len(reply.body) // 2, scene.options["seconds"]
    return attrs.evolve(reply, sent=half, pause_s=pause)


def _truncated(scene: Scene) -> Reply:
    reply = scene.answer(scene.request)
    return attrs.evolve(reply, sent=len(reply.body) // 2)


def _short(scene: Scene) -> Reply:
    reply = scene.answer(scene.request)
    return attrs.evolve(reply, body=reply.body[: len(reply.body) // 2])


def _flipped(scene: Scene) -> Reply:
    reply = scene.answer(scene.request)
    body = bytearray(reply.body)
    if body:
        body[len(body) // 2] ^= 1
    return attrs.evolve(reply, body=bytes(body))


def _lagging(scene: Scene) -> Reply:
    return scene.answer(attrs.evolve(scene.request, back=scene.options["back"]))


def _moved_head(scene: Scene) -> Reply:
    reply = scene.answer(scene.request)
    files = scene.options["files"]
    files = files or {f"elsewhere/{scene.request.number}.txt": b"moved"}
    scene.repository().write(files, "a commit by somebody else")
    return reply


def _squash(scene: Scene) -> Reply:
    reply = scene.answer(scene.request)
    scene.repository().squash()
    return reply


def _public(scene: Scene) -> Reply:
    reply = scene.answer(scene.request)
    fields = json.loads(bytes(reply.body))
    return told({**fields, "private": False}, reply.status)


_READS = ("info", "refs", "tree", "paths-info", "commits", "resolve-*")
_OF_ONE = (*_READS, "auth-check*", "preupload", "lfs-*", "commit", "squash", "settings")

KINDS: Mapping[str, Kind] = {
    "busy": Kind(
        _refuse(lambda scene: repository_busy()),
        ("commit",),
        "409: another commit is being written; the head has not moved",
    ),
    "conflict": Kind(
        _refuse(lambda scene: stale_parent()),
        ("commit",),
        "412: the head moved; with times=None what a token without write rights gets",
    ),
    "rate-limit": Kind(
        _refuse(_rate_limit),
        ("*",),
        "429 with RateLimit: r=0;t=seconds",
        {"seconds": 1},
    ),
    "retry-after": Kind(
        _refuse(_retry_after), ("*",), "429 with Retry-After: seconds", {"seconds": 1}
    ),
    "commit-quota": Kind(
        _refuse(lambda scene: commit_quota(scene.options["wait"])),
        ("commit",),
        "429 whose text alone says how long, beside a RateLimit of another bucket",
        {"wait": "about 1 hour"},
    ),
    "too-many": Kind(
        _refuse(lambda scene: too_many({})),
        ("*",),
        "429 without a word on when",
    ),
    "server-error": Kind(lambda scene: _broken(500), ("*",), "500, nothing was done"),
    "bad-gateway": Kind(lambda scene: _broken(502), ("*",), "502, nothing was done"),
    "unavailable": Kind(lambda scene: _broken(503), ("*",), "503 with a page of HTML"),
    "gateway-timeout": Kind(
        lambda scene: _broken(504), ("*",), "504, nothing was done"
    ),
    "storm": Kind(_storm, ("*",), "500, 502, 503 or 504, by the request's number"),
    "error-after-applying": Kind(
        _error_after, ("commit",), "500, and yet it was carried out"
    ),
    "dropped-reply": Kind(
        _dropped_reply, ("commit",), "it is carried out, the connection is closed"
    ),
    "dropped-request": Kind(
        lambda scene: Reply(dropped=True),
        ("*",),
        "the connection is closed, nothing was done",
    ),
    "late": Kind(
        _late,
        ("commit",),
        "504, and carried out some requests later",
        {"requests": 3},
    ),
    "stall": Kind(
        _stall,
        ("*",),
        "not one byte for seconds, then the connection is closed",
        {"seconds": 3600.0, "applied": False},
    ),
    "stalled-body": Kind(
        _stalled_body,
        ("resolve-get", "tree", "info"),
        "half of the body, then nothing for seconds",
        {"seconds": 3600.0},
    ),
    "truncated": Kind(
        _truncated, ("resolve-get",), "half of the body, then the connection is closed"
    ),
    "short": Kind(
        _short, ("resolve-get",), "half of the content, as if it were all of it"
    ),
    "flipped": Kind(_flipped, ("resolve-get",), "one bit of the content is wrong"),
    "lagging-head": Kind(
        _lagging,
        _READS,
        "a branch is shown as it was that many changes ago, also if squashed since",
        {"back": 1},
    ),
    "moved-head": Kind(
        _moved_head,
        ("resolve-head",),
        "somebody commits files right after the answer",
        {"files": None},
    ),
    "squash": Kind(
        _squash, ("resolve-head", "info"), "the history is squashed right after"
    ),
    "storage-quota": Kind(
        _refuse(lambda scene: storage_full()),
        ("lfs-batch", "commit"),
        "403: the private storage is used up",
    ),
    "expired-token": Kind(
        _refuse(lambda scene: bad_token()),
        ("*",),
        "401: the token is no longer good",
    ),
    "public": Kind(_public, ("info",), "the repository says that it is public"),
    "gated": Kind(
        _refuse(lambda scene: gated(scene.request.parts["repository"])),
        ("resolve-*", "auth-check*"),
        "403: the user is not on the list",
    ),
    "disabled": Kind(
        _refuse(lambda scene: disabled()), _OF_ONE, "403: the Hub took it down"
    ),
    "unknown-repository": Kind(
        _refuse(lambda scene: no_repository(known_user=True)),
        _OF_ONE,
        "404: no such repository, or not for this user",
    ),
    "unknown-revision": Kind(
        _refuse(lambda scene: no_revision(scene.request.parts.get("revision", ""))),
        _READS,
        "404: the revision is gone, as after a squash",
    ),
}

RANDOM = (
    "busy conflict server-error unavailable storm error-after-applying dropped-reply"
    " dropped-request late truncated short flipped lagging-head rate-limit retry-after"
).split()
"""The kinds that pass by themselves."""
