"""Every request to the Hub; the only module of the lanes that imports huggingface_hub.

Most requests are made one by one over the client's own session, with its headers and
addresses, because its functions decide too much on their own: `create_commit` leaves
out files that equal the head it saw, and then compares no parent; others have no
timeout, wait for minutes without a way to stop them, or draw bars on the screen. The
client's functions are used where they carry a protocol: the parts of an upload, making
a repository, squashing, and releasing storage.

A request is made once. Whoever asks decides what may be asked again.
Works with huggingface_hub 1.x (httpx) and 2.x (httpx2); neither is imported by name.
"""

import base64
import contextvars
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote

import attrs
import huggingface_hub
from huggingface_hub.lfs import lfs_upload, post_lfs_batch_info
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

import speedtronic
from speedtronic.errors import SpeedtronicError
from speedtronic.pure.round.backoff import delay_s
from speedtronic.shell.lanes.hub.options import TIMEOUT_S, HubOptions
from speedtronic.shell.lanes.hub.reply import Reply, reply_of
from speedtronic.shell.lanes.hub.trouble import (
    Failed,
    Trouble,
    of_exception,
    of_status,
)
from speedtronic.shell.lanes.hub.waiting import Stopped, interruptible
from speedtronic.shell.redact import redact

T = TypeVar("T")
BRANCH = "main"
_CONNECT_S = 10.0
_ASKED = 256  # files at once
_TRIES = 3
_FIRST_S, _LONGEST_S = 0.5, 4.0  # between two
_timeout_s = contextvars.ContextVar("timeout_s", default=TIMEOUT_S)
_installing = threading.Lock()
_STOPPED = Trouble("stopped", "stopped before the next request")


@attrs.frozen
class Large:
    """A file in the Hub's storage for large files."""

    sha256: str
    size: int  # bytes


class Client:
    """Requests about one repository, each bounded in time and ended by a stop.

    Raises from every request:
        Failed: with the `Trouble`.
    """

    def __init__(self, repository: str, options: HubOptions) -> None:
        token = options.token.reveal() if options.token else None
        self._secret = token or huggingface_hub.get_token() or ""
        self.repository = repository
        self.options = options
        endpoint = options.endpoint and options.endpoint.rstrip("/")
        self.api = huggingface_hub.HfApi(endpoint=endpoint, token=token)
        self.endpoint: str = self.api.endpoint
        self._headers = build_hf_headers(
            token=token,
            library_name="speedtronic",
            library_version=speedtronic.__version__,
        )
        self._who = secrets.token_hex(8)  # so that not all wait equally long
        self._closed_until: dict[str, float] = {}

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token."""
        return "authorization" in self._headers

    def address(self, path: str) -> str:
        """Of the API, below the repository; ``path`` is quoted."""
        return f"{self.endpoint}/api/models/{self.repository}{path}"

    def place(self, name: str, revision: str) -> str:
        """Of a file."""
        path = f"{quote(revision, safe='')}/{quote(name)}"
        return f"{self.endpoint}/{self.repository}/resolve/{path}"

    def get(self, url: str) -> tuple[Any, str | None]:
        """JSON, and the address of the next page if there is one."""
        reply, following = self._send("api", "GET", url)
        return reply.json(), following

    def pages(self, url: str) -> Iterator[Any]:
        """The entries of a listing that comes in pages."""
        page: str | None = url
        while page:
            entries, page = self.get(page)
            yield from entries

    def post(self, bucket: str, url: str, body: bytes, kind: str) -> Reply:
        """Send ``body``, whose content type is ``kind``."""
        headers = {"Content-Type": kind}
        return self._send(bucket, "POST", url, headers=headers, content=body)[0]

    def metadata(self, name: str, revision: str) -> tuple[str | None, str | None]:
        """The commit that a revision is at, and the ETag of a file there.

        A HEAD of a file counts where downloads count, which is five times as much as
        the API allows. Either may be missing: the ETag if there is no such file.
        """
        try:
            reply, _ = self._send("resolvers", "HEAD", self.place(name, revision))
        except Failed as failed:
            if failed.trouble.kind == "entry" and failed.commit:
                return failed.commit, None
            raise
        etag = reply.headers.get("x-linked-etag") or reply.headers.get("etag", "")
        etag = etag.removeprefix("W/").strip('"')
        return reply.headers.get("x-repo-commit"), etag or None

    @contextmanager
    def streaming(self, url: str, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """A file's bytes from ``start`` on, or from 0 if the Hub prefers.

        Not interruptible by itself: to be used inside `run`.
        """
        headers = {**self._headers, "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        with (
            self._translated("resolvers"),
            _session().stream("GET", url, headers=headers, timeout=self._limits()) as r,
        ):
            if r.status_code >= 300:
                raise self._failed("resolvers", reply_of(r))
            begins = start if r.status_code == 206 else 0
            yield begins, r.iter_bytes()  # as they come: a piece less is lost with them

    def upload(self, files: Mapping[str, BinaryIO]) -> dict[str, Large | None]:
        """Put those files that the Hub holds to be large into its storage.

        Not interruptible by itself: to be used inside `run`.

        Returns:
            None for those that are part of the commit instead.
        """
        adds = {n: huggingface_hub.CommitOperationAdd(n, f) for n, f in files.items()}
        large = {n: adds[n] for n in self._large(adds)}
        by_sum = {add.upload_info.sha256.hex(): add for add in large.values()}
        for action in self._actions(by_sum) if by_sum else []:
            add = by_sum[action["oid"]]
            lfs_upload(add, action, headers=self._headers, endpoint=self.endpoint)
        told = {n: add.upload_info for n, add in large.items()}
        return {
            n: Large(told[n].sha256.hex(), told[n].size) if n in told else None
            for n in files
        }

    def run(self, bucket: str, call: Callable[[], T]) -> T:
        """Any call that makes requests, ended by a stop and with its errors explained.

        Args:
            bucket: whose quota it counts against: ``api``, ``resolvers``, ``commit``.
            call: it owns what it touches, see `interruptible`.
        """
        if self.options.stop.is_set():
            raise Failed(_STOPPED)
        self._check_open(bucket)

        def bounded() -> T:
            _timeout_s.set(self.options.timeout_s)
            _session()
            with self._translated(bucket):
                return call()

        try:
            return interruptible(bounded, self.options.stop)
        except Stopped:
            text = "stopped while waiting for the Hub"
            raise Failed(Trouble("transient", text)) from None

    def patiently(self, call: Callable[[], T]) -> T:
        """A call that only reads, made again a few times while there is no answer."""
        for tried in range(_TRIES - 1):
            try:
                return call()
            except Failed as failed:
                if failed.trouble.kind not in ("transient", "unsent"):
                    raise
            self.back_off(tried)
        return call()

    def back_off(
        self, tried: int, first_s: float = _FIRST_S, longest_s: float = _LONGEST_S
    ) -> None:
        """Wait before asking again, longer each time and not as long as others."""
        self.pause(delay_s(first_s, longest_s, tried, self._who))

    def pause(self, seconds: float) -> None:
        """Wait, unless there is a stop."""
        if self.options.stop.wait(seconds):
            raise Failed(_STOPPED)

    def clean(self, text: str) -> str:
        """A text without any token."""
        if self._secret:
            text = text.replace(self._secret, "***")
        return redact(text)

    def _send(
        self, bucket: str, *request: Any, **more: Any
    ) -> tuple[Reply, str | None]:
        return self.run(bucket, lambda: self._request(bucket, *request, **more))

    def _request(
        self,
        bucket: str,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> tuple[Reply, str | None]:
        """The answer, and the address of the next page if there is one."""
        answer = _session().request(
            method,
            url,
            headers={**self._headers, **(headers or {})},
            content=content,
            timeout=self._limits(),
        )
        reply = reply_of(answer)
        if reply.status >= 300:
            raise self._failed(bucket, reply)
        following = answer.links.get("next", {}).get("url")
        return reply, following

    def _large(self, adds: Mapping[str, Any]) -> list[str]:
        """The names that the Hub wants in its storage; an empty file never is."""
        found = []
        for start in range(0, len(adds), _ASKED):
            part = list(adds.items())[start : start + _ASKED]
            files = [_sample(name, add.upload_info) for name, add in part]
            reply, _ = self._request(
                "api",
                "POST",
                self.address(f"/preupload/{BRANCH}"),
                headers={"Content-Type": "application/json"},
                content=json.dumps({"files": files}).encode(),
            )
            modes = {file["path"]: file["uploadMode"] for file in reply.json()["files"]}
            found += [n for n, a in part if modes[n] == "lfs" and a.upload_info.size]
        return found

    def _actions(self, by_sum: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What is to be done for each content; nothing for those that are there."""
        actions, refused, *_ = post_lfs_batch_info(
            [add.upload_info for add in by_sum.values()],
            None,
            "model",
            self.repository,
            revision=BRANCH,
            endpoint=self.endpoint,
            headers=self._headers,
        )
        if refused:
            error = refused[0].get("error", {})
            code, said = int(error.get("code", 500)), str(error.get("message", ""))
            raise Failed(of_status(code, {}, self.clean(said)))
        return [action for action in actions if action.get("actions")]

    def _limits(self) -> tuple[float, float, float, float]:
        """Connect, read, write, pool; a tuple, which httpx and httpx2 both take."""
        each_s = self.options.timeout_s
        return min(_CONNECT_S, each_s), each_s, each_s, each_s

    def _check_open(self, bucket: str) -> None:
        left_s = self._closed_until.get(bucket, 0.0) - self.options.clock()
        if left_s > 0:
            text = f"the Hub allows the next request in {left_s:.0f} s (429)"
            raise Failed(Trouble("rate", text, left_s))

    def _failed(self, bucket: str, reply: Reply) -> Failed:
        trouble = of_status(reply.status, reply.headers, self.clean(reply.words))
        if trouble.retry_after_s is not None:
            until = self.options.clock() + trouble.retry_after_s
            self._closed_until[bucket] = until
        return Failed(trouble, reply.headers.get("x-repo-commit"))

    @contextmanager
    def _translated(self, bucket: str) -> Iterator[None]:
        try:
            yield
        except (Failed, SpeedtronicError):
            raise
        except Exception as error:  # the client and its transports raise what they like
            raise self._explained(bucket, error) from None  # the cause holds the token

    def _explained(self, bucket: str, error: BaseException) -> Failed:
        chain = [error]
        while chain[-1].__cause__ is not None:
            chain.append(chain[-1].__cause__)
        for each in chain:  # the client wraps what happened to an upload
            answer = getattr(each, "response", None)
            if answer is not None and answer.status_code >= 300:
                return self._failed(bucket, reply_of(answer))
        names = {kind.__name__ for kind in type(chain[-1]).__mro__}
        said = str(chain[-1]) or type(chain[-1]).__name__
        return Failed(of_exception(names, self.clean(said)))


def _session() -> Any:
    """The client's session, which never waits without a bound from now on.

    The client's own functions pass no timeout, or None, which hangs for ever on a
    connection that is silent. There is one session per process, and it is made anew
    after a fork.
    """
    session = huggingface_hub.get_session()
    with _installing:
        hooks = session.event_hooks
        if _bound not in hooks["request"]:
            request = [*hooks["request"], _bound]
            session.event_hooks = {**hooks, "request": request}
    return session


def _bound(request: Any) -> None:
    each_s = _timeout_s.get()
    limits = dict(request.extensions.get("timeout") or {})
    for name in ("connect", "read", "write", "pool"):
        if limits.get(name) is None:
            limits[name] = min(_CONNECT_S, each_s) if name == "connect" else each_s
    request.extensions = {**request.extensions, "timeout": limits}


def _sample(name: str, info: Any) -> dict[str, Any]:
    sample = base64.b64encode(info.sample).decode()
    return {"path": name, "sample": sample, "size": info.size}
