"""A request and its reply, as values, and the refusals that the Hub words.

Replies carry how they travel too: a fault changes the bytes on the wire, not the
meaning of an answer.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from speedtronic.testing.hub.values import Account


@attrs.frozen
class Request:
    """What a client asks."""

    number: int  # from 0, in the order of arrival
    method: str
    target: str  # path and query as they came
    endpoint: str  # the route's name, such as "commit"
    parts: Mapping[str, str]  # what the route found in the path, unquoted
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]  # names in lower case
    chunks: Callable[[], Iterator[bytes]]  # the body, once
    account: Account | None = None
    back: int = 0  # how many commits the head lags behind for this request

    @property
    def user(self) -> str | None:
        """Who asks, None for nobody in particular."""
        return None if self.account is None else self.account.user

    @property
    def revision(self) -> str:
        """The revision that the path names, ``main`` if none."""
        return self.parts.get("revision", "main")

    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.chunks())

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            Refused: 400, it is none.
        """
        try:
            return json.loads(self.body())
        except ValueError as error:
            raise Refused(400, f"the body is not JSON: {error}") from None

    def flag(self, name: str) -> bool:
        """A parameter of the query, false unless it says otherwise."""
        return self.query.get(name, ["false"])[-1] in ("true", "True", "1")


@attrs.frozen
class Reply:
    """What the client gets."""

    status: int = 200
    body: bytes | memoryview = b""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    delay_s: float = 0.0  # before the first byte
    sent: int | None = None  # bytes of the body; None for all
    pause_s: float = 0.0  # after those, before the connection is closed
    dropped: bool = False  # the connection is closed without a word


def told(value: Any, status: int = 200, headers: Mapping[str, str] = {}) -> Reply:
    """A reply in JSON."""
    content = {"Content-Type": "application/json; charset=utf-8"}
    return Reply(status, json.dumps(value).encode(), {**content, **headers})


class Refused(Exception):
    """A request that is answered with an error.

    Args:
        status: of HTTP.
        message: for people; clients must not depend on it, and some do.
        code: ``X-Error-Code``, by which the client chooses its exception.
        fields: more of the JSON body.
        headers: more headers.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self._body = {"error": message, **(fields or {})}
        self._headers = {"X-Error-Message": message, **(headers or {})}
        if code:
            self._headers["X-Error-Code"] = code

    def reply(self) -> Reply:
        """As it is sent."""
        return told(self._body, self.status, self._headers)


def no_repository(*, known_user: bool) -> Refused:
    """There is none of this name that this user may see: the Hub does not say which."""
    return Refused(404 if known_user else 401, "Repository not found", "RepoNotFound")


def disabled() -> Refused:
    """The Hub took the repository down."""
    return Refused(403, "Access to this resource is disabled.")


def gated(name: str) -> Refused:
    """Only people on a list may have the contents."""
    message = f"Access to model {name} is restricted and you are not in the list."
    return Refused(403, message, "GatedRepo")


def bad_token() -> Refused:
    """The token is not known, or no longer good."""
    return Refused(401, "Invalid credentials in Authorization header")


def no_revision(revision: str) -> Refused:
    """No branch, tag or commit of this name."""
    return Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")


def no_entry(name: str, commit: str | None = None) -> Refused:
    """No file or folder of this name at a revision."""
    message = "A file with this name doesn't exist"
    headers = {"X-Repo-Commit": commit} if commit else None
    return Refused(404, f"{message}: {name}", "EntryNotFound", headers=headers)


def stale_parent() -> Refused:
    """The head is not what the commit was decided on."""
    return Refused(
        412,
        "The branch was updated since you opened this page. "
        "Please refresh and try again.",
    )


def repository_busy() -> Refused:
    """Another commit is being written; the head has not moved yet."""
    return Refused(
        409,
        "Another commit operation is in progress for this repository. "
        "Please try again later.",
    )


def storage_full() -> Refused:
    """The quota of private storage is used up."""
    return Refused(
        403,
        "Private repository storage limit reached, please upgrade your plan "
        "to increase your private storage limit.",
    )


def too_many(headers: Mapping[str, str]) -> Refused:
    """The quota of requests is used up; the headers may say for how long."""
    return Refused(429, "Too Many Requests", headers=headers)


def commit_quota(wait: str, most: int = 128) -> Refused:
    """The hourly quota of commits: only the text says how long to wait."""
    return Refused(
        429,
        f"You have exceeded the rate limit for repository commits ({most} per hour). "
        f"You can retry this action in {wait}.",
        headers={"RateLimit": '"api";r=949;t=271'},
    )
