"""Addresses, matched as they come and unquoted afterwards."""

import pytest

from speedtronic.testing.hub.messages import Reply
from speedtronic.testing.hub.routing import find, route

ROUTES = [
    route("tree", "GET", "/api/{repository}/tree/{revision}", lambda h, r: Reply()),
    route(
        "tree", "GET", "/api/{repository}/tree/{revision}/{path}", lambda h, r: Reply()
    ),
    route("lfs", "POST", "/{repository}.git/batch", lambda h, r: Reply()),
]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/a/b/tree/w%2F0", {"repository": "a/b", "revision": "w/0"}),
        (
            "/api/a/b/tree/main/x%2Fy%20z",
            {"repository": "a/b", "revision": "main", "path": "x/y z"},
        ),
        ("/api/a/tree/main", None),
    ],
    ids=["branch", "folder", "no-owner"],
)
def test_a_slash_may_be_part_of_a_name(path, expected) -> None:
    """If it is quoted."""
    found = find(ROUTES, "GET", path)

    assert expected == (found and dict(found[1]))


def test_a_name_may_hold_a_dot() -> None:
    """Also before ``.git``."""
    found = find(ROUTES, "POST", "/me/run.v1.git/batch")

    assert found and {"repository": "me/run.v1"} == found[1]
    assert find(ROUTES, "GET", "/me/run.v1.git/batch") is None
