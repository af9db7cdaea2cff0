"""Answers as values."""

from types import SimpleNamespace

import pytest

from speedtronic.shell.lanes.hub.reply import Reply, reply_of
from speedtronic.shell.lanes.hub.trouble import Failed


def test_headers_of_redirects_are_kept() -> None:
    """Where the bytes are, nobody knows of commits."""
    hop = SimpleNamespace(headers={"X-Repo-Commit": "abc", "ETag": "old"})
    last = SimpleNamespace(
        headers={"ETag": "new"}, history=[hop], status_code=200, read=lambda: b"x"
    )

    expected = Reply(200, {"x-repo-commit": "abc", "etag": "new"}, b"x")
    assert expected == reply_of(last)


def test_a_body_that_cannot_be_read_any_more_is_empty() -> None:
    """What the status says is said all the same."""

    def gone() -> bytes:
        raise RuntimeError("the connection is closed")

    answer = SimpleNamespace(headers={}, history=[], status_code=503, read=gone)

    assert Reply(503, {}, b"") == reply_of(answer)


def test_a_page_where_json_should_be_is_no_answer() -> None:
    """It may be another's, between us and the Hub."""
    with pytest.raises(Failed) as caught:
        Reply(200, {}, b"<html>log in</html>").json()

    assert "transient" == caught.value.trouble.kind


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        ({"x-error-message": "from a header"}, b'{"error": "body"}', "from a header"),
        ({}, b'{"error": "from a body"}', "from a body"),
        ({}, b'{"error": ["a", "list"]}', ""),
        ({}, b"[]", ""),
        ({}, b"\xff<html>", ""),
    ],
    ids=["header", "body", "list", "other-json", "page"],
)
def test_the_hubs_own_words(headers: dict[str, str], body: bytes, words: str) -> None:
    """Only where it is the Hub that speaks."""
    assert words == Reply(400, headers, body).words
