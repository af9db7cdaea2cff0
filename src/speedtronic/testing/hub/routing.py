"""Addresses to endpoints.

Paths are matched as they come and unquoted afterwards, because a branch and a folder
may hold a slash, which the client quotes.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import unquote

import attrs

from speedtronic.testing.hub.messages import Reply, Request
from speedtronic.testing.hub.state import HubState

Answer: TypeAlias = Callable[[HubState, Request], Reply]

_PARTS = {
    "repository": r"(?P<repository>[^/]+/[^/]+?)",
    "owner": r"(?P<owner>[^/]+)",
    "revision": r"(?P<revision>[^/]+)",
    "path": r"(?P<path>.+)",
    "sum": r"(?P<sum>[0-9a-f]{64})",
}


@attrs.frozen
class Route:
    """One method and form of address."""

    endpoint: str
    method: str
    pattern: re.Pattern[str]
    answer: Answer


def route(endpoint: str, method: str, path: str, answer: Answer) -> Route:
    """A route; ``path`` may hold ``{repository}``, ``{revision}`` and so on.

    >>> made = route("refs", "GET", "/api/{repository}/refs", lambda hub, r: Reply())
    >>> find([made], "GET", "/api/me/run/refs")[1]
    {'repository': 'me/run'}
    """
    pattern = re.sub(r"\\{(\w+)\\}", lambda m: _PARTS[m[1]], re.escape(path))
    return Route(endpoint, method, re.compile(pattern), answer)


def find(
    routes: list[Route], method: str, path: str
) -> tuple[Route, Mapping[str, str]] | None:
    """The route of an address and the parts it names, None if there is none."""
    for candidate in routes:
        match = candidate.pattern.fullmatch(path)
        if match and candidate.method == method:
            return candidate, {k: unquote(v) for k, v in match.groupdict().items()}
    return None
