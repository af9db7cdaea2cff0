"""Who may do what: tokens, users, organizations.

A repository under a user's name can be written by that user only; one under an
organization's name by every user, as far as their token goes. A user who may not
see a private repository is told that there is none, as the Hub does.
"""

import random
import string
from threading import Lock

from speedtronic.testing.hub.messages import bad_token
from speedtronic.testing.hub.values import Account, Role


class Accounts:
    """The tokens that are good, and the names of organizations.

    >>> accounts = Accounts(seed=0)
    >>> token = accounts.add("alice", "write")
    >>> token[:3], accounts.bearer(token)
    ('hf_', Account(user='alice', role='write'))
    """

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(f"{seed} tokens")
        self._tokens: dict[str, Account] = {}
        self._organizations: set[str] = set()
        self._lock = Lock()

    def add(self, user: str, role: Role, token: str | None = None) -> str:
        """Let a new token in, drawn in the form of a real one unless it is given."""
        with self._lock:
            letters = string.ascii_letters
            token = token or "hf_" + "".join(self._draw.choices(letters, k=34))
            self._tokens[token] = Account(user, role)
            return token

    def expire(self, token: str) -> None:
        """Refuse a token from now on."""
        with self._lock:
            self._tokens.pop(token, None)

    def add_organization(self, name: str) -> None:
        """Every user becomes a member."""
        self._organizations.add(name)

    @property
    def organizations(self) -> list[str]:
        """Their names."""
        return sorted(self._organizations)

    def is_user(self, name: str) -> bool:
        """Whether a token was given out under this name."""
        with self._lock:
            return any(account.user == name for account in self._tokens.values())

    def bearer(self, token: str) -> Account:
        """Who sent this token.

        Raises:
            Refused: 401, it is not known or no longer good.
        """
        with self._lock:
            account = self._tokens.get(token)
        if account is None:
            raise bad_token()
        return account

    def owns(self, account: Account | None, repository: str) -> bool:
        """Whether a repository is under the account's name or its organization's.

        >>> Accounts(seed=0).owns(Account("alice", "read"), "alice/run")
        True
        """
        if account is None:
            return False
        owner = repository.partition("/")[0]
        return owner == account.user or owner in self._organizations
