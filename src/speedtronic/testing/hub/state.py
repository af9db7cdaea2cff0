"""All that an emulated Hub knows, and who may see what of it."""

import errno
import fcntl
import re
import threading
from pathlib import Path
from typing import TextIO

from speedtronic.testing.hub.accounts import Accounts
from speedtronic.testing.hub.faults import Faults
from speedtronic.testing.hub.messages import (
    Refused,
    Request,
    disabled,
    gated,
    no_repository,
)
from speedtronic.testing.hub.quota import Clock, Limits, Quotas
from speedtronic.testing.hub.repository import Repository
from speedtronic.testing.hub.traffic import Traffic
from speedtronic.testing.hub.values import Account

_NAME = re.compile(r"(?!.*(\.\.|--))[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)


class HubState:
    """Repositories, accounts, quotas, faults, traffic and a clock."""

    def __init__(self, seed: int, folder: Path | None, limits: Limits) -> None:
        self.accounts = Accounts(seed)
        self.clock = Clock()
        self.limits = limits
        self.quotas = Quotas(limits, self.clock)
        self.faults = Faults()
        self.traffic = Traffic()
        self.endpoint = ""  # known once the port is
        self._folder = folder
        self._held: TextIO | None = None
        self._lock = threading.Lock()
        self._repositories: dict[str, Repository] = {}

    def open(self) -> None:
        """Take the folder, and what is in it.

        Raises:
            OSError: it cannot be written, or another emulator has it.
        """
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        held = (self._folder / "lock").open("w")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.close()
            where = str(self._folder)
            raise OSError(errno.EBUSY, "another emulator uses it", where) from None
        self._held = held
        for path in self._folder.glob("*/*/repository.json"):
            name = "/".join(path.parts[-3:-1])
            self._repositories[name] = self._made(name, private=True)

    def close(self) -> None:
        """Let go of the folder."""
        if self._held is not None:
            self._held.close()
            self._held = None

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
            made = self._repositories[name] = self._made(name, private=private)
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
            raise no_repository(known_user=True)
        return found

    def owned(self, account: Account, owner: str) -> list[Repository]:
        """The repositories under a name, if the account belongs there."""
        with self._lock:
            every = sorted(self._repositories.items())
        return [
            found
            for name, found in every
            if name.partition("/")[0] == owner and self.accounts.owns(account, name)
        ]

    def readable(self, request: Request) -> Repository:
        """The repository of a request, if its sender may know of it.

        Raises:
            Refused: 401 or 404 as if there were none; 403, it was taken down.
        """
        name, account = request.parts["repository"], request.account
        with self._lock:
            found = self._repositories.get(name)
        owned = self.accounts.owns(account, name)
        if found is None or (found.settings.private and not owned):
            raise no_repository(known_user=account is not None)
        if found.settings.disabled:
            raise disabled()
        return found

    def downloadable(self, request: Request) -> Repository:
        """The repository of a request, if its sender may have the contents.

        Raises:
            Refused: as `readable`; 403, it is gated.
        """
        found = self.readable(request)
        if found.settings.gated and not self.accounts.owns(request.account, found.name):
            raise gated(found.name)
        return found

    def writable(self, request: Request) -> Repository:
        """The repository of a request, if its sender may change it.

        Raises:
            Refused: as `readable`; 403, they may read only.
        """
        found = self.readable(request)
        if request.account is None:
            raise no_repository(known_user=False)
        if request.account.role == "read":
            raise Refused(
                403, "Forbidden: you must use a write token to write to a repository."
            )
        if not self.accounts.owns(request.account, found.name):
            raise Refused(403, "Forbidden: you don't have write access to this repo.")
        return found

    def _made(self, name: str, *, private: bool) -> Repository:
        folder = None if self._folder is None else self._folder / name
        now = self.clock.now
        return Repository(name, folder, self.limits, now, private=private)
