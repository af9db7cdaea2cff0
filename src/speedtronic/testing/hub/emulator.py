"""The emulator: a Hub on loopback for as long as a ``with`` block lasts."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from speedtronic.testing.hub import routes_reading, routes_repository, routes_writing
from speedtronic.testing.hub.faults import Faults
from speedtronic.testing.hub.kinds import KINDS, Fault, Scene
from speedtronic.testing.hub.messages import Refused, Reply, Request, told
from speedtronic.testing.hub.quota import Clock, Limits
from speedtronic.testing.hub.repository import Repository
from speedtronic.testing.hub.routing import find
from speedtronic.testing.hub.server import HubServer
from speedtronic.testing.hub.state import HubState
from speedtronic.testing.hub.traffic import Counts, Entry, Traffic
from speedtronic.testing.hub.values import Account, Role

OWNER = "owner"
_ROUTES = [
    *routes_repository.ROUTES,
    *routes_reading.ROUTES,
    *routes_writing.ROUTES,
]


class HubEmulator:
    """A Hub of model repositories that the real client of huggingface_hub speaks to.

    Args:
        latency: seconds that each answer takes, drawn evenly between two bounds.
        seed: of latencies and tokens.
        folder: where repositories are kept, so that a later emulator has them too;
            None for memory.
        limits: quotas and sizes.
        port: 0 for one that is free.
        verbose: is told each request, as it is answered.

    >>> from huggingface_hub import HfApi
    >>> with HubEmulator() as hub:
    ...     api = HfApi(endpoint=hub.endpoint, token=hub.token)
    ...     made = api.create_repo("owner/run", private=True)
    ...     sha = api.repo_info("owner/run").sha
    ...     sha == hub.repo("owner/run").head
    True
    """

    def __init__(
        self,
        *,
        latency: tuple[float, float] | None = None,
        seed: int = 0,
        folder: Path | str | None = None,
        limits: Limits = Limits(),  # noqa: B008
        port: int = 0,
        verbose: Callable[[Entry], object] | None = None,
    ) -> None:
        self._latency = latency
        self._seed = seed
        self._verbose = verbose
        place = None if folder is None else Path(folder)
        self._state = HubState(seed, place, limits)
        self._traffic = Traffic()
        self._late: list[tuple[int, Callable[[], object]]] = []
        self._late_lock = threading.Lock()
        self._server = HubServer(port, self._respond)
        self._state.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.faults = Faults()
        self.token = self.add_token(OWNER, "write")
        self.read_token = self.add_token(OWNER, "read")

    def __enter__(self) -> "HubEmulator":
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop()

    # -- what is there ---------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """For ``HF_ENDPOINT`` or ``HfApi(endpoint=...)``."""
        return self._state.endpoint

    @property
    def clock(self) -> Clock:
        """The clock of quotas and dates."""
        return self._state.clock

    @property
    def log(self) -> deque[Entry]:
        """The last requests, oldest first."""
        return self._traffic.log

    def counts(self) -> Counts:
        """All requests so far, counted."""
        return self._traffic.counts()

    def repo(self, name: str) -> Repository:
        """A repository, to look into it or to change it from within.

        Raises:
            Refused: 404, there is none.
        """
        return self._state.repository(name)

    def create_repo(self, name: str, *, private: bool = True) -> Repository:
        """Make a repository; an owner who is no user becomes an organization.

        Raises:
            Refused: 409, it is there.
        """
        owner = name.partition("/")[0]
        if not self._state.accounts.is_user(owner):
            self.add_organization(owner)
        return self._state.create(name, private=private)

    def add_token(self, user: str, role: Role, token: str | None = None) -> str:
        """Let one more token in; drawn by the seed unless it is given.

        ``role`` is ``write``, ``read``, or ``pull-request`` for a token that may only
        propose: the Hub answers each of its commits with 412.
        """
        return self._state.accounts.add(user, role, token)

    def expire_token(self, token: str) -> None:
        """Refuse a token from now on."""
        self._state.accounts.expire(token)

    def add_organization(self, name: str) -> None:
        """Every user becomes a member, with the rights of their token."""
        self._state.accounts.add_organization(name)

    # -- answering -------------------------------------------------------------

    def _respond(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        chunks: Callable[[], Iterator[bytes]],
    ) -> Reply:
        started = time.monotonic()
        number = self._traffic.next()
        self._run_late(number)
        split = urlsplit(target)
        found = find(_ROUTES, method, split.path)
        endpoint = found[0].endpoint if found else "unknown"
        parts: Mapping[str, str] = found[1] if found else {}
        account: Account | None = None
        fault: Fault | None = None
        try:
            account = self._account(headers)
            if endpoint != "lfs-upload":
                whole = b"".join(chunks())
                chunks = lambda: iter([whole])
            request = Request(
                number=number,
                method=method,
                target=target,
                endpoint=endpoint,
                parts=parts,
                query=parse_qs(split.query),
                headers=headers,
                chunks=chunks,
                account=account,
            )
            user = account.user if account else None
            fault = self.faults.next(number, endpoint, parts, user)
            self._wait(number)
            if found is None:
                raise Refused(404, f"This emulator has no {method} {split.path}")
            reply = self._play(fault, request, found[0].answer)
        except Refused as refused:
            reply = refused.reply()
        except ConnectionError:
            reply = Reply(dropped=True)
        except (
            Exception
        ) as error:  # a mistake of the emulator must not look like a Hub's
            message = f"emulator: {type(error).__name__}: {error}"
            reply = told({"error": message}, 501, {"X-Error-Message": message})
        entry = Entry(
            number=number,
            method=method,
            target=target,
            endpoint=endpoint,
            user=account.user if account else None,
            status=0 if reply.dropped else reply.status,
            fault=fault.kind if fault else None,
            seconds=time.monotonic() - started,
        )
        self._traffic.add(entry)
        if self._verbose:
            self._verbose(entry)
        return reply

    def _play(
        self,
        fault: Fault | None,
        request: Request,
        route: Callable[[HubState, Request], Reply],
    ) -> Reply:
        def answer(asked: Request) -> Reply:
            self._state.count_request(asked)
            return route(self._state, asked)

        if fault is None:
            return answer(request)
        scene = Scene(
            options=fault.options,
            request=request,
            answer=answer,
            repository=lambda: self.repo(request.parts["repository"]),
            postpone=lambda count, act: self._postpone(request.number + count, act),
        )
        return KINDS[fault.kind].play(scene)

    def _account(self, headers: Mapping[str, str]) -> Account | None:
        word, _, token = headers.get("authorization", "").partition(" ")
        return self._state.accounts.bearer(token) if word == "Bearer" else None

    def _wait(self, number: int) -> None:
        if self._latency is not None:
            draw = random.Random(f"{self._seed} latency {number}")
            self._server.stopping.wait(draw.uniform(*self._latency))

    def _postpone(self, due: int, act: Callable[[], object]) -> None:
        with self._late_lock:
            self._late.append((due, act))

    def _run_late(self, number: int) -> None:
        with self._late_lock:
            due = [act for when, act in self._late if when <= number]
            self._late = [(when, act) for when, act in self._late if when > number]
        for act in due:
            try:
                act()
            except Refused:
                pass  # nobody waits for the answer any more
