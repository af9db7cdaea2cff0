"""What an answer of the Hub means: a table from statuses, headers and exceptions.

It looks at values only: a status, headers, a text, the names of an exception's
classes. Statuses and codes decide, never the wording, which has changed before; the
wording is read for one thing, how long a commit quota lasts, which nothing else says.
"""

import re
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

import attrs

from speedtronic.errors import Conflict, Denied, LaneError, Missing, Unavailable

Kind: TypeAlias = Literal[
    "conflict",  # the head is another: nothing was done
    "busy",  # another commit is being written: nothing was done
    "rate",  # too many requests or commits: nothing was done
    "unsent",  # the request never left: nothing was done
    "stopped",  # before there was a request: nothing was done
    "transient",  # no usable answer: nobody knows what was done
    "entry",  # no such name at this revision
    "revision",  # no such revision, or no longer
    "denied",  # only a person can help
]
Reason: TypeAlias = Literal[
    "", "token", "permission", "missing", "gated", "storage", "refused", "offline"
]
_TRANSIENT = {408, 500, 502, 503, 504, 520, 522, 524}
_UNSENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"}
_MISTAKES = {"ValueError", "TypeError", "NotImplementedError"}
_NO_ANSWER = {"TransportError", "JSONDecodeError"}  # the latter is a ValueError
_IN_TIME = re.compile(r"in (?:about )?(\d+|an?) (second|minute|hour)")
_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0}
_LIMIT = re.compile(r'"\w+"\s*;\s*r\s*=\s*(\d+)\s*;\s*t\s*=\s*(\d+)')
_SILENT_S = 60.0  # after a 429 that does not say how long
_LONGEST = 300  # characters of the Hub's own words that are repeated


@attrs.frozen
class Trouble:
    """Why there is no result, and what can be done."""

    kind: Kind
    text: str  # one line
    retry_after_s: float | None = None  # for "rate"
    reason: Reason = ""  # for "denied"

    def error(self, where: str) -> LaneError:
        """The failure of the lane that callers see.

        >>> Trouble("rate", "slow down", 9.0).error("lane hub:me/run").retry_after_s
        9.0
        """
        told = f"{where}: {self.text}"
        if self.kind == "conflict":
            return Conflict(told)
        if self.kind in ("entry", "revision"):
            return Missing(told)
        if self.kind == "denied":
            return Denied(told)
        return Unavailable(told, retry_after_s=self.retry_after_s)


class Failed(Exception):
    """A request without a result; it stays inside this package."""

    def __init__(self, trouble: Trouble, commit: str | None = None) -> None:
        super().__init__(trouble.text)
        self.trouble = trouble
        self.commit = commit  # that the Hub looked at, if it said so


def of_status(status: int, headers: Mapping[str, str], message: str) -> Trouble:
    """What an answer means that is no success.

    Args:
        status: of HTTP, not below 300.
        headers: of the answer; their names in lower case.
        message: the Hub's own words, if any.

    >>> of_status(412, {}, "refresh").kind
    'conflict'
    >>> of_status(429, {"retry-after": "7"}, "").retry_after_s
    7.0
    """
    said = _short(message)
    code = headers.get("x-error-code", "")
    if status == 412:
        return Trouble("conflict", f"the head has moved (412{said})")
    if status == 409:
        return Trouble("busy", f"another commit is being written (409{said})")
    if status == 429:
        wait_s = _wait_s(headers, message)
        text = f"too many requests or commits (429{said}); next in {wait_s:.0f} s"
        return Trouble("rate", text, wait_s)
    if code == "EntryNotFound":
        return Trouble("entry", "no such file there")
    if code == "RevisionNotFound":
        return Trouble("revision", "no such revision, or not kept")
    if code == "RepoNotFound" or status in (401, 403):
        return _not_allowed(status, code, said)
    if status in _TRANSIENT or status >= 500 or status in (404, 425) or status < 400:
        # A 404 without a code is not the Hub's: a proxy, or something in its place.
        return Trouble("transient", f"no usable answer (status {status}{said})")
    return Trouble("denied", f"the Hub refuses this ({status}{said})", reason="refused")


def of_exception(names: Collection[str], message: str) -> Trouble:
    """What an exception of the HTTP client means, by the names of its classes.

    >>> of_exception({"ReadTimeout", "TransportError"}, "timed out").kind
    'transient'
    >>> of_exception({"ConnectError", "TransportError"}, "refused").kind
    'unsent'
    """
    said = _short(message)
    known = set(names)
    if "OfflineModeIsEnabled" in known:
        text = "HF_HUB_OFFLINE is set: unset it to train with others"
        return Trouble("denied", text, reason="offline")
    if known & _UNSENT:
        return Trouble("unsent", f"the Hub cannot be reached{said}")
    if known & _MISTAKES and not known & _NO_ANSWER:
        text = f"the Hub's client refuses this{said}"
        return Trouble("denied", text, reason="refused")
    return Trouble("transient", f"no answer from the Hub{said}")


def _not_allowed(status: int, code: str, said: str) -> Trouble:
    lowered = said.lower()
    if code == "RepoNotFound":
        text = (
            "no such repository, or the token may not see it: check OWNER/NAME, and"
            " that the token (HF_TOKEN or `hf auth login`) may read it"
        )
        return Trouble("denied", text, reason="missing")
    if status == 401:
        text = (
            "the token is missing, wrong or expired (401): make one that may write at"
            " https://huggingface.co/settings/tokens and set HF_TOKEN"
        )
        return Trouble("denied", text, reason="token")
    if code == "GatedRepo":
        text = "the repository is gated (403): ask its owner for access on its page"
        return Trouble("denied", text, reason="gated")
    if "storage" in lowered:
        text = (
            f"the storage is used up (403{said}): squash the history, delete other"
            " repositories, or buy more"
        )
        return Trouble("denied", text, reason="storage")
    text = (
        f"not permitted (403{said}): the token needs write access to this repository;"
        " one that only reads, or a repository of another user, will not do"
    )
    return Trouble("denied", text, reason="permission")


def _wait_s(headers: Mapping[str, str], message: str) -> float:
    limit = _LIMIT.search(headers.get("ratelimit", ""))
    if limit and limit[1] == "0":  # else it tells of another quota than the one hit
        return float(limit[2])
    after = headers.get("retry-after", "")
    if after.isdigit():
        return float(after)
    in_words = _IN_TIME.search(message)
    if in_words:
        count = 1.0 if in_words[1].startswith("a") else float(in_words[1])
        return count * _SECONDS[in_words[2]]
    return _SILENT_S


def _short(message: str) -> str:
    line = " ".join(message.split())
    cut = line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
    return f": {cut}" if cut else ""
