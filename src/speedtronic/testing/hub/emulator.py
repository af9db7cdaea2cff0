"""The emulator: a Hub on loopback for as long as a ``with`` block lasts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from speedtronic.testing.hub.answering import Answering
from speedtronic.testing.hub.faults import Faults
from speedtronic.testing.hub.quota import Clock, Limits
from speedtronic.testing.hub.repository import Repository
from speedtronic.testing.hub.server import HubServer
from speedtronic.testing.hub.state import HubState
from speedtronic.testing.hub.traffic import Counts, Entry
from speedtronic.testing.hub.values import Role

_OWNER = "owner"  # the user of the tokens that every emulator has


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
        self._state = HubState(seed, None if folder is None else Path(folder), limits)
        self._answering = Answering(self._state, latency, seed, self._wait, verbose)
        self._port = port
        self._server: HubServer | None = None
        self.token = self.add_token(_OWNER, "write")
        self.read_token = self.add_token(_OWNER, "read")

    def __enter__(self) -> "HubEmulator":
        self._state.open()
        try:
            self._start()
        except OSError:
            self._state.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        self._state.close()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """While this lasts nobody listens at the endpoint; the repositories stay."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def _start(self) -> None:
        self._server = HubServer(self._port, self._answering.respond)
        self._port = self._server.server_port
        self._state.endpoint = f"http://127.0.0.1:{self._port}"
        self._server.start()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _wait(self, seconds: float) -> None:
        server = self._server
        if server is not None:
            server.stopping.wait(seconds)

    # -- what is there ---------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """For ``HF_ENDPOINT`` or ``HfApi(endpoint=...)``; known inside of ``with``."""
        return self._state.endpoint

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs in its environment to use this Hub, and no other."""
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_TOKEN": self.token,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }

    @property
    def faults(self) -> Faults:
        """The switchboard."""
        return self._state.faults

    @property
    def clock(self) -> Clock:
        """The clock of quotas and dates."""
        return self._state.clock

    @property
    def log(self) -> list[Entry]:
        """The last ten thousand requests, oldest first."""
        return self._state.traffic.log()

    def counts(self) -> Counts:
        """All requests so far, counted."""
        return self._state.traffic.counts()

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
