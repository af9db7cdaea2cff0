"""One commit: a request that is sent, and what became of it.

Every commit rewrites the marker, with bytes that no other commit has. So no commit is
empty, the ETag of the marker tells whose a revision is, and a commit whose answer was
lost is found again by the nonce in its message or by its marker.

Sent again is only what the Hub said it did not do: a busy repository, or a refusal of
a commit that names no parent. After a lost answer the history is read, and whatever it
does not prove stays unknown.
"""

import base64
import json
import secrets
from collections.abc import Collection, Mapping
from typing import Any

import attrs

from speedtronic.shell.lanes.hub.client import BRANCH, Client, Large
from speedtronic.shell.lanes.hub.staging import Staged
from speedtronic.shell.lanes.hub.tree import MARKER, git_oid
from speedtronic.shell.lanes.hub.trouble import Failed, Trouble

_FORMAT = {"format": "speedtronic lane", "version": 1}
_TITLE = 200  # characters
_SENT = 6  # times, while the Hub says that it did nothing
_BUSY_FIRST_S, _BUSY_LONGEST_S = 1.0, 10.0
_LOOKS_S = (0.0, 2.0, 8.0)  # waited before each look for a lost commit
_STUBBORN = 8  # refusals in a row of a commit on a head that does not move
_STUBBORN_S = 120.0  # that these must span; a head may lag for half a minute


@attrs.frozen
class Draft:
    """A commit before it is sent."""

    parent: str | None  # None: whatever the head is
    nonce: str
    marker: bytes
    body: bytes


def draft(
    staged: Mapping[str, Staged],
    deletes: Collection[str],
    parent: str | None,
    message: str,
) -> Draft:
    """The bytes of a commit that is like no other."""
    nonce = secrets.token_hex(16)
    marker = json.dumps({**_FORMAT, "nonce": nonce}).encode() + b"\n"
    title = " ".join(message.split())[:_TITLE] or "Speedtronic"
    header = {"summary": title, "description": f"speedtronic {nonce}"}
    if parent is not None:
        header["parentCommit"] = parent
    lines: list[tuple[str, Mapping[str, Any]]] = [("header", header)]
    lines += [_add(name, blob) for name, blob in {**staged, MARKER: marker}.items()]
    lines += [("deletedFile", {"path": name}) for name in sorted(set(deletes))]
    told = [json.dumps({"key": key, "value": value}) for key, value in lines]
    return Draft(parent, nonce, marker, "\n".join(told).encode() + b"\n")


class Commits:
    """Sends drafts."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._refused: str | None = None  # the parent of the last refusal
        self._refusals = 0
        self._refused_s = 0.0  # when the first of them was

    def send(self, draft: Draft) -> str:
        """The revision that this draft, and no other, became.

        Raises:
            Failed: ``conflict``, ``busy``, ``rate``, ``unsent``, ``entry`` or
                ``denied``: it was not applied, and will not be. ``transient``: that
                is not known; the text says what is.
        """
        try:
            revision = self._post(draft)
        except Failed as failed:
            if failed.trouble.kind == "conflict":
                raise self._stubborn(draft.parent, failed) from None
            if failed.trouble.kind != "transient":
                raise
            revision = self._found(draft, failed.trouble)
        self._refusals = 0
        return revision

    def _post(self, draft: Draft) -> str:
        url = self._client.address(f"/commit/{BRANCH}")
        for sent in range(1, _SENT + 1):
            try:
                reply = self._client.post(
                    "commit", url, draft.body, "application/x-ndjson"
                )
                break
            except Failed as failed:
                kind = failed.trouble.kind
                moved = kind == "conflict" and draft.parent is None
                if not (kind == "busy" or moved) or sent == _SENT:
                    raise
            self._client.back_off(sent - 1, _BUSY_FIRST_S, _BUSY_LONGEST_S)
        told = reply.json()
        revision = told.get("commitOid") if isinstance(told, dict) else None
        if not isinstance(revision, str) or not self._is_mine(draft, revision):
            text = "the Hub answered a commit with a revision that is not this commit"
            raise Failed(Trouble("transient", text))
        return revision

    def _found(self, draft: Draft, lost: Trouble) -> str:
        """Read the history until it says what became of a draft."""
        known = "the history cannot be read"
        for wait_s in _LOOKS_S:
            try:
                if wait_s:
                    self._client.pause(wait_s)
                found = self._in_history(draft)
            except Failed as failed:
                if failed.trouble.kind == "denied":
                    raise
                continue  # after a stop there is no pause either
            if isinstance(found, Trouble):
                raise Failed(found)
            if found is not None:
                return found
            known = f"it is not in the history of {BRANCH} so far, and may still appear"
        raise Failed(Trouble("transient", f"{lost.text}; of this commit: {known}"))

    def _in_history(self, draft: Draft) -> str | Trouble | None:
        """The revision, or why there is none, or None as long as that is open."""
        history, _ = self._client.get(self._client.address(f"/commits/{BRANCH}"))
        revisions = [str(commit["id"]) for commit in history]
        for commit in history:
            if draft.nonce in f"{commit.get('title')} {commit.get('message')}":
                return str(commit["id"])
        if draft.parent in revisions[1:]:
            # Only one commit can follow on a parent, and it is not going to be another.
            child = revisions[revisions.index(draft.parent) - 1]
            if self._is_mine(draft, child):
                return child
            text = f"{child} followed on {draft.parent}; this commit was not applied"
            return Trouble("conflict", text)
        if draft.parent not in revisions and self._is_mine(draft, revisions[0]):
            text = "the commit was applied, and the history squashed since: look again"
            return Trouble("transient", text)
        return None

    def _is_mine(self, draft: Draft, revision: str) -> bool:
        _, etag = self._client.patiently(
            lambda: self._client.metadata(MARKER, revision)
        )
        return etag == git_oid(draft.marker)

    def _stubborn(self, parent: str | None, refusal: Failed) -> Failed:
        """A token that may only open pull requests is refused like a stale parent."""
        now_s = self._client.options.clock()
        if not self._refusals or parent != self._refused:
            self._refused, self._refusals, self._refused_s = parent, 0, now_s
        self._refusals += 1
        long = now_s - self._refused_s >= _STUBBORN_S
        if self._refusals < _STUBBORN or not long:
            if parent is None:  # nobody named a head that could have moved
                return Failed(Trouble("busy", refusal.trouble.text))
            return refusal
        text = (
            f"{self._refusals} commits in a row were refused as out of date (412),"
            " although the head did not move; a token that may only open pull requests"
            " is answered like this: make one with write access"
        )
        return Failed(Trouble("denied", text, reason="permission"))


def _add(name: str, blob: Staged) -> tuple[str, dict[str, Any]]:
    if isinstance(blob, Large):
        fields = {"algo": "sha256", "oid": blob.sha256, "size": blob.size}
        return "lfsFile", {"path": name, **fields}
    content = base64.b64encode(blob).decode()
    return "file", {"path": name, "content": content, "encoding": "base64"}
