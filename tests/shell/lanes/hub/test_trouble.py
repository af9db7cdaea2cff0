"""What answers mean."""

import pytest

from speedtronic.errors import Conflict, Denied, LaneError, Missing, Unavailable
from speedtronic.shell.lanes.hub.trouble import Trouble, of_exception, of_status

LONG = "You can retry this action in about 1 hour."


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (412, {}, ("conflict", "")),
        (409, {}, ("busy", "")),
        (429, {}, ("rate", "")),
        (404, {"x-error-code": "EntryNotFound"}, ("entry", "")),
        (404, {"x-error-code": "RevisionNotFound"}, ("revision", "")),
        (404, {"x-error-code": "RepoNotFound"}, ("denied", "missing")),
        (401, {"x-error-code": "RepoNotFound"}, ("denied", "missing")),
        (401, {}, ("denied", "token")),
        (403, {}, ("denied", "permission")),
        (403, {"x-error-code": "GatedRepo"}, ("denied", "gated")),
        (400, {}, ("denied", "refused")),
        (402, {}, ("denied", "refused")),
        (413, {}, ("denied", "refused")),
        (422, {}, ("denied", "refused")),
        (404, {}, ("transient", "")),
        (408, {}, ("transient", "")),
        (500, {}, ("transient", "")),
        (503, {}, ("transient", "")),
        (524, {}, ("transient", "")),
        (302, {}, ("transient", "")),
    ],
    ids=lambda value: (
        str(value).replace("/", "-") if not isinstance(value, dict) else ""
    ),
)
def test_statuses_and_codes_decide(
    status: int, headers: dict[str, str], expected: tuple[str, str]
) -> None:
    """Not the wording, which the Hub has changed before."""
    trouble = of_status(status, headers, "whatever it says")

    assert expected == (trouble.kind, trouble.reason)


def test_a_full_storage_is_told_apart() -> None:
    """Write access would not help."""
    text = "Private repository storage limit reached, please upgrade your plan"

    assert "storage" == of_status(403, {}, text).reason


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"ratelimit": '"api";r=0;t=55'}, "", 55.0),
        ({"retry-after": "7"}, "", 7.0),
        ({"ratelimit": '"api";r=949;t=271'}, LONG, 3600.0),
        ({}, "You can retry this action in 43 minutes", 2580.0),
        ({}, "try again in an hour", 3600.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, "", 60.0),
        ({}, "", 60.0),
    ],
    ids=["window", "header", "another-quota", "minutes", "an-hour", "date", "silent"],
)
def test_the_wait_is_found_where_it_is_told(
    headers: dict[str, str], message: str, seconds: float
) -> None:
    """A window that is not used up is not the one that was hit."""
    assert seconds == of_status(429, headers, message).retry_after_s


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ({"ConnectError", "NetworkError", "TransportError"}, "unsent"),
        ({"ConnectTimeout", "TimeoutException", "TransportError"}, "unsent"),
        ({"ReadTimeout", "TimeoutException", "TransportError"}, "transient"),
        ({"RemoteProtocolError", "TransportError"}, "transient"),
        ({"JSONDecodeError", "ValueError"}, "transient"),
        ({"ConnectionError", "OSError"}, "transient"),
        ({"RuntimeError"}, "transient"),
        ({"HFValidationError", "ValueError"}, "denied"),
        ({"OfflineModeIsEnabled", "ConnectionError", "OSError"}, "denied"),
    ],
    ids=lambda value: value if isinstance(value, str) else min(value),
)
def test_exceptions_are_known_by_their_names(names: set[str], kind: str) -> None:
    """Of both HTTP libraries, without importing either."""
    assert kind == of_exception(names, "it says").kind


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("conflict", Conflict),
        ("busy", Unavailable),
        ("rate", Unavailable),
        ("unsent", Unavailable),
        ("transient", Unavailable),
        ("entry", Missing),
        ("revision", Missing),
        ("denied", Denied),
    ],
)
def test_each_kind_is_a_failure_of_the_lane(kind: str, error: type[LaneError]) -> None:
    """In one line that says where."""
    raised = Trouble(kind, "why").error("lane hub:me/run: head")  # type: ignore[arg-type]

    assert type(raised) is error
    assert "lane hub:me/run: head: why" == str(raised)


def test_a_page_of_text_becomes_a_line() -> None:
    """Of bounded length."""
    told = of_status(400, {}, "a\n\tb  c" + "x" * 5000).text

    assert "a b c" in told
    assert len(told) < 400
