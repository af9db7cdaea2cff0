"""An answer of the Hub as a value, whichever HTTP library brought it."""

from collections.abc import Mapping
from typing import Any

import attrs

from speedtronic.pure.strict_json import parse
from speedtronic.shell.lanes.hub.trouble import Failed, Trouble

_LOOKED_AT = 64 << 10  # bytes of an error's body


@attrs.frozen
class Reply:
    """An answer of the Hub, read to its end."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            Failed: transient, it is none.
        """
        try:
            return parse(self.body)
        except ValueError:
            raise Failed(Trouble("transient", "the answer is not JSON")) from None

    @property
    def words(self) -> str:
        """What the Hub says of an error, in its header or its body, if anything.

        >>> Reply(403, {}, b'{"error": "storage limit"}').words
        'storage limit'
        >>> Reply(502, {}, b"<html>").words
        ''
        """
        told = self.headers.get("x-error-message")
        if told:
            return told
        try:
            error = parse(self.body[:_LOOKED_AT])["error"]
        except (ValueError, KeyError, TypeError):
            return ""  # a page of HTML, or nothing
        return error if isinstance(error, str) else ""


def reply_of(answer: Any) -> Reply:
    """The answer of httpx or httpx2, with the headers of the redirects before it.

    A redirect to where the bytes are may end at an answer without the Hub's headers.
    """
    headers: dict[str, str] = {}
    for each in (*answer.history, answer):
        headers |= {name.lower(): value for name, value in each.headers.items()}
    try:
        body = bytes(answer.read())
    except Exception:  # it was never read, and the connection is gone
        body = b""
    return Reply(answer.status_code, headers, body)
