"""All that an emulated Hub knows, and who may see what of it."""

import re
import threading
from pathlib import Path

from speedtronic.testing.hub.accounts import Accounts
from speedtronic.testing.hub.kinds import commit_quota, disabled
from speedtronic.testing.hub.messages import Refused, Request, no_repository
from speedtronic.testing.hub.quota import Clock, Limits, Rolling, Window
from speedtronic.testing.hub.repository import Repository
from speedtronic.testing.hub.values import Account

_NAME = re.compile(r"(?!.*(\.\.|--))[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
_HOUR = 3600.0
_WINDOW = 300.0


class HubState:
    """Repositories, accounts, quotas and a clock."""

    def __init__(self, seed: int, folder: Path | None, limits: Limits) -> None:
        self.accounts = Accounts(seed)
        self.clock = Clock()
        self.limits = limits
        self.endpoint = ""  # known once the port is
        self._folder = folder
        self._lock = threading.Lock()
        self._repositories: dict[str, Repository] = {}
        self._commits: dict[str, Rolling] = {}
        self._requests: dict[tuple[str | None, str], Window] = {}
        if folder is not None:
            for path in folder.glob("*/*/repository.json"):
                name = "/".join(path.parts[-3:-1])
                self._repositories[name] = self._open(name, private=True)

    # -- repositories ----------------------------------------------------------

    def create(self, name: str, *, private: bool) -> Repository:
        """Make a repository.

        Raises:
            Refused: 400 a name that cannot be, 409 it is there.
        """
        owner, _, last = name.partition("/")
        if not (_NAME.fullmatch(owner) and _NAME.fullmatch(last)):
            raise Refused(400, f"Invalid repository name: {name!r}")
        with self._lock:
            if name in self._repositories:
                raise Refused(
                    409,
                    "You already created this model repo",
                    fields={"url": f"{self.endpoint}/{name}"},
                )
            made = self._repositories[name] = self._open(name, private=private)
            return made

    def delete(self, name: str) -> None:
        """Remove a repository and its folder."""
        with self._lock:
            self._repositories.pop(name).remove()

    def repository(self, name: str) -> Repository:
        """A repository, whoever asks.

        Raises:
            Refused: 404, there is none.
        """
        with self._lock:
            found = self._repositories.get(name)
        if found is None:
            raise no_repository(name, known_user=True)
        return found

    def readable(self, name: str, account: Account | None) -> Repository:
        """A repository as far as this account may read it.

        Raises:
            Refused: 401 or 404 as if there were none; 403 it is gated or disabled.
        """
        with self._lock:
            found = self._repositories.get(name)
        owned = self.accounts.owns(account, name.partition("/")[0])
        if found is None or (found.settings.private and not owned):
            raise no_repository(name, known_user=account is not None)
        if found.settings.disabled:
            raise disabled()
        if found.settings.gated and not owned:
            message = f"Access to model {name} is restricted."
            raise Refused(403, message, "GatedRepo")
        return found

    def writable(self, name: str, account: Account | None) -> Repository:
        """A repository that this account may write to.

        Raises:
            Refused: as `readable`; 403 it may read only.
        """
        found = self.readable(name, account)
        if account is None:
            raise no_repository(name)
        if account.role == "read":
            raise Refused(
                403, "Forbidden: you must use a write token to write to a repository."
            )
        if not self.accounts.owns(account, name.partition("/")[0]):
            raise Refused(403, "Forbidden: you don't have write access to this repo.")
        return found

    def _open(self, name: str, *, private: bool) -> Repository:
        folder = None if self._folder is None else self._folder / name
        now = self.clock.now
        return Repository(name, folder, self.limits, now, private=private)

    # -- quotas ----------------------------------------------------------------

    def count_request(self, request: Request) -> None:
        """Take one from the request quota of a user.

        Raises:
            Refused: 429 with the Hub's headers, none is left.
        """
        bucket = "resolvers" if request.endpoint.startswith("resolve-") else "api"
        limits = self.limits
        most = limits.resolves if bucket == "resolvers" else limits.requests
        if most is None:
            return
        with self._lock:
            key = (request.user, bucket)
            window = self._requests.setdefault(key, Window(most, _WINDOW))
        left, wait_s = window.take(self.clock.now())
        if left < 0:
            raise Refused(
                429,
                "We had to rate limit you, please upgrade or retry later.",
                headers={
                    "RateLimit": f'"{bucket}";r=0;t={int(wait_s) + 1}',
                    "RateLimit-Policy": f'"fixed window";"{bucket}";q={most};w=300',
                },
            )

    def count_commit(self, repository: Repository) -> None:
        """Take one from the hourly quota of commits.

        Raises:
            Refused: 429 whose text says how long to wait.
        """
        most = self.limits.commits_per_hour
        if most is None:
            return
        with self._lock:
            rolling = self._commits.setdefault(repository.name, Rolling(most, _HOUR))
        wait_s = rolling.take(self.clock.now())
        if wait_s is not None:
            minutes = int(wait_s / 60) + 1
            told = "about 1 hour" if minutes > 55 else f"{minutes} minutes"
            raise commit_quota(told, most)
