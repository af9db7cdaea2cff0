"""Listings: in pages, kept, and with the right sums."""

from collections.abc import Callable

import pytest

from speedtronic.errors import Missing, Unavailable
from speedtronic.pure.config.base import Secret
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.shell.lanes.hub.tree import Entry
from speedtronic.testing.hub import HubEmulator, Limits


@pytest.fixture
def lane(hub_lane: Callable[..., HubLane]) -> HubLane:
    return hub_lane()


def test_a_listing_is_asked_for_once(hub: HubEmulator, lane: HubLane) -> None:
    """What a revision holds never changes."""
    revision = lane.commit({"a": b"1"}, parent=None)
    before = hub.counts().of("tree")
    for _ in range(3):
        assert {"a": 1} == lane.names("", revision)

    assert 1 == hub.counts().of("tree") - before


def test_a_listing_may_have_pages(
    hub_options: Callable[..., HubOptions],
) -> None:
    """Of which each is asked for, and asked for again when it gets lost."""
    with HubEmulator(limits=Limits(page_entries=10)) as hub:
        hub.create_repo("owner/run")
        hub.repo("owner/run").write({f"n/{i:03}": b"x" for i in range(35)})
        options = hub_options(endpoint=hub.endpoint, token=Secret(hub.token))
        lane = HubLane("owner/run", options)
        hub.faults.inject("unavailable", where="tree", after=2)

        assert 35 == len(lane.names("n/", hub.repo("owner/run").head))


def test_only_names_of_the_grammar_are_seen(
    hub: HubEmulator, lane: HubLane, repository: str
) -> None:
    """Others are not read either."""
    files = {".hidden": b"", "a b": b"", "CON": b"", "ok": b"1"}
    revision = hub.repo(repository).write(files)

    assert {"ok": 1} == lane.names("", revision)
    with pytest.raises(Missing):
        lane.read("a b", revision)
    with pytest.raises(Missing):
        lane.read(".gitattributes", revision)


def test_a_revision_that_was_squashed_is_missing(
    hub: HubEmulator, lane: HubLane, repository: str
) -> None:
    """A reader looks again and finds the same content under another name."""
    old = lane.commit({"a": b"1"}, parent=None)
    hub.repo(repository).squash()
    with pytest.raises(Missing, match="no such revision, or not kept"):
        lane.names("", old)
    new = lane.head()

    assert new is not None and new != old
    assert b"1" == lane.read("a", new)


@pytest.mark.parametrize("revision", ["main", "HEAD", "v1.0", "a" * 39, "A" * 40])
def test_only_a_whole_revision_is_read(
    hub: HubEmulator, lane: HubLane, revision: str
) -> None:
    """A branch may move between two requests; nothing is even asked."""
    before = hub.counts().total
    with pytest.raises(Missing):
        lane.read("a", revision)

    assert before == hub.counts().total


FILE = {"type": "file", "path": "a", "size": 1, "oid": "a" * 40}


@pytest.mark.parametrize(
    "item",
    [
        FILE | {"oid": "../../etc/passwd"},
        FILE | {"oid": ["a"]},
        FILE | {"path": ["a"]},
        FILE | {"path": None},
        FILE | {"size": "1"},
        FILE | {"size": -1},
        FILE | {"lfs": "x"},
        FILE | {"lfs": {"sha": "x"}},
        {"type": "file"},
        {},
        [],
        None,
    ],
    ids=repr,
)
def test_a_listing_of_another_form_is_none(
    lane: HubLane, monkeypatch: pytest.MonkeyPatch, item: object
) -> None:
    """Its sums become names of files in the cache, its sizes are believed."""
    revision = lane.commit({"a": b"1"}, parent=ANY)
    listed = [item]
    monkeypatch.setattr(lane._client, "pages", lambda url: iter(listed))
    with pytest.raises(Unavailable, match="the listing is not the Hub's"):
        lane.names("", revision)


def test_equal_bytes_of_another_length_are_not_equal() -> None:
    """The size is part of both sums."""
    entry = Entry(4, "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0", False)
    check = entry.check()
    check.update(b"hello")

    assert not check.right
