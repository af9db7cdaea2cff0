"""Whether a run can use a repository: asked before it starts, told all together.

Each finding is one line with what to do, and those that would fail for ever are
found here, so that a run does not find them one after the other, hours later.
"""

from typing import Any, Literal, TypeAlias

import attrs

from speedtronic.errors import ConfigError, Unavailable
from speedtronic.shell.lanes.hub.client import Client
from speedtronic.shell.lanes.hub.options import HubOptions, repository_problem
from speedtronic.shell.lanes.hub.trouble import Failed, Trouble

Topic: TypeAlias = Literal[
    "name",  # no repository could be called this
    "network",  # the Hub does not answer, or must not be asked
    "token",  # none, wrong or expired
    "permission",  # the token or the user may not write
    "missing",  # no such repository, as far as the token sees
    "gated",
    "public",
    "storage",
    "writer",  # who may write at all
    "refused",  # anything else that the Hub says
]
_TOPICS: dict[str, Topic] = {
    "token": "token",
    "permission": "permission",
    "missing": "missing",
    "gated": "gated",
    "storage": "storage",
    "refused": "refused",
    "offline": "network",
    "": "network",
}


@attrs.frozen
class Finding:
    """What was found."""

    topic: Topic
    text: str  # one line: what, and what to do
    fatal: bool = True  # or worth knowing


def check(
    repository: str, options: HubOptions | None = None, *, create: bool = False
) -> list[Finding]:
    """Find out whether a run can live in a repository.

    Args:
        repository: ``OWNER/NAME``.
        options: token and endpoint, and whether it may be public.
        create: make it, private, if it is not there.

    Returns:
        What stands in the way and what is worth knowing. With nothing fatal among it
        the repository is there, is private (unless it may be public), and the token
        may write to it.
    """
    where = f"lane hub:{repository}"
    problem = repository_problem(repository)
    if problem:
        return [Finding("name", f"{where}: {problem}")]
    client = Client(repository, options or HubOptions())
    if not client.has_token:
        text = (
            "no token: set HF_TOKEN to one that may write, from"
            " https://huggingface.co/settings/tokens, or log in with `hf auth login`"
        )
        return [Finding("token", f"{where}: {text}")]
    try:
        told = _found(client, create)
    except Failed as failed:
        told = [_finding(failed.trouble)]
    return [attrs.evolve(each, text=f"{where}: {each.text}") for each in told]


def refuse(findings: list[Finding]) -> None:
    """Refuse a run for what is fatal.

    Raises:
        ConfigError: one line each.
        Unavailable: the Hub does not answer, so nothing is known.

    >>> refuse([Finding("writer", "one writer", fatal=False)])
    """
    fatal = [each for each in findings if each.fatal]
    for each in fatal:
        if each.topic == "network":
            raise Unavailable(each.text)
    if fatal:
        raise ConfigError([each.text for each in fatal])


def _found(client: Client, create: bool) -> list[Finding]:
    user = client.patiently(lambda: _json(client, f"{client.endpoint}/api/whoami-v2"))
    told = []
    role = ((user.get("auth") or {}).get("accessToken") or {}).get("role")
    if role == "read":
        text = "the token may only read: make one that may write to this repository"
        told.append(Finding("permission", text))
    try:
        facts = _facts(client)
    except Failed as failed:
        if failed.trouble.reason != "missing":
            raise
        if told or not create:
            return [*told, _finding(failed.trouble)]
        _create(client)
        facts = _facts(client)
    told += _privacy(client, facts)
    if not told:
        try:
            client.patiently(lambda: _json(client, client.address("/auth-check/write")))
        except Failed as failed:
            if failed.trouble.kind != "denied":
                raise
            told.append(_finding(failed.trouble))
    return [*told, *_worth_knowing(client, facts, user)]


def _create(client: Client) -> None:
    client.run(
        "api",
        lambda: client.api.create_repo(client.repository, private=True, exist_ok=True),
    )


def _facts(client: Client) -> dict[str, Any]:
    expand = "&".join(f"expand={name}" for name in ("private", "usedStorage"))
    return client.patiently(lambda: _json(client, client.address(f"?{expand}")))


def _privacy(client: Client, facts: dict[str, Any]) -> list[Finding]:
    # Asked for after creation too: `exist_ok` leaves a public repository public.
    if facts.get("private") or client.options.allow_public:
        return []
    text = (
        "the repository is public, and everything that nodes send can be read by"
        " anybody: make it private on its settings page, or set"
        " distributed.allow_public: true"
    )
    return [Finding("public", text)]


def _worth_knowing(
    client: Client, facts: dict[str, Any], user: dict[str, Any]
) -> list[Finding]:
    told = []
    used = facts.get("usedStorage")
    if isinstance(used, int):
        text = f"{used / 1e9:.1f} GB of storage are in use, old revisions included"
        told.append(Finding("storage", text, fatal=False))
    owner = client.repository.partition("/")[0]
    if owner == user.get("name"):
        text = (
            f"the repository belongs to the user {owner!r}, and only that user's tokens"
            " may write to it: for nodes of several people use a repository of an"
            " organization that they are members of"
        )
        told.append(Finding("writer", text, fatal=False))
    return told


def _json(client: Client, url: str) -> dict[str, Any]:
    told = client.get(url)[0]
    if not isinstance(told, dict):
        raise Failed(Trouble("transient", "the answer is not the Hub's"))
    return told


def _finding(trouble: Trouble) -> Finding:
    return Finding(_TOPICS[trouble.reason], trouble.text)
