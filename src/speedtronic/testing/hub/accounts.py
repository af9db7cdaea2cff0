"""Who may do what: tokens, users, organizations.

A repository under a user's name can be written by that user only; one under an
organization's name by every user, as far as their token goes. A user who may not
see a private repository is told that there is none, as the Hub does.
"""

import random
import string
from threading import Lock

from speedtronic.testing.hub.messages import Refused
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
            raise Refused(401, "Invalid credentials in Authorization header")
        return account

    def owns(self, account: Account | None, owner: str) -> bool:
        """Whether an account belongs to the user or organization ``owner``."""
        member = account is not None and owner in self._organizations
        return member or (account is not None and account.user == owner)
