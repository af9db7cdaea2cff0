"""Who may take part: changing the roster, and reading one that anybody wrote."""

import json
from itertools import count
from typing import Any

import attrs
import pytest

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain
from speedtronic.pure.round.roster import (
    MAX_MEMBERS,
    Member,
    Roster,
    added,
    changes,
    encode,
    founded,
    newer,
    parse,
    removed,
    signed_text,
)

RUN, OWNER = "0" * 16, "a" * 64
FIRST = attrs.evolve(founded(RUN, OWNER, {"one": "1" * 64}), signature="f" * 128)
TWO = Member(node="two", key="2" * 64, role="worker")


def test_a_member_is_added_and_removed() -> None:
    """Each is a new version, without a signature until the owner gives one."""
    second = added(FIRST, TWO)
    third = removed(second, "two")
    assert [1, 2, 3] == [r.version for r in (FIRST, second, third)]
    assert ["", ""] == [second.signature, third.signature]
    assert (TWO, None) == (second.member("two"), third.member("two"))
    assert FIRST.members == third.members


def test_a_key_is_rotated_by_adding_the_node_again() -> None:
    """Also its role and its limit."""
    now = Member(node="two", key="3" * 64, role="master", max_norm=2.0)
    old = added(FIRST, TWO)
    new = added(old, now)
    assert now == new.member("two")
    assert [
        "two has another key, 3333333333333333",
        "two is master now",
        "two has the norm limit 2.0 now",
    ] == changes(old, new)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda: removed(FIRST, "two"), "two is not in the roster; it has one"),
        (lambda: removed(FIRST, "one"), "no master would be left"),
        (
            lambda: added(FIRST, attrs.evolve(TWO, key="1" * 64)),
            "node one has this key already",
        ),
        (
            lambda: added(FIRST, attrs.evolve(TWO, node="one")),
            "no master would be left",
        ),
        (
            lambda: added(
                founded(RUN, OWNER, {f"n{i}": f"{i:064x}" for i in range(MAX_MEMBERS)}),
                attrs.evolve(TWO, key="f" * 64),
            ),
            f"at most {MAX_MEMBERS} members",
        ),
    ],
    ids=count(),
)
def test_a_change_that_cannot_be(change: Any, told: str) -> None:
    """A run that nobody could lead would stand still for ever."""
    with pytest.raises(ValueError, match=told):
        change()


def test_only_a_higher_version_of_the_same_owner_replaces_one() -> None:
    """What was revoked stays revoked."""
    second = added(FIRST, TWO)
    assert newer(FIRST, second)
    assert not newer(second, FIRST)
    assert not newer(FIRST, FIRST)
    assert not newer(None, FIRST)
    assert not newer(FIRST, attrs.evolve(second, owner="b" * 64))
    assert not newer(FIRST, attrs.evolve(second, run="1" * 16))


def test_a_roster_survives_the_lane() -> None:
    """With its signature, which is not part of what is signed."""
    roster = attrs.evolve(added(FIRST, TWO), signature="e" * 128)
    assert roster == parse(encode(roster))
    assert signed_text(roster) == signed_text(attrs.evolve(roster, signature=""))
    assert signed_text(roster) != signed_text(attrs.evolve(roster, version=9))


def _set(*path: Any) -> Any:
    *parents, last, value = path

    def change(found: Any) -> None:
        for key in parents:
            found = found[key]
        found[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_set("schema", 2), "roster.json.schema"),
        (_set("run", "x"), "roster.json.run"),
        (_set("owner", "A" * 64), "a public key"),
        (_set("version", 0), "roster.json.version"),
        (_set("signature", ""), "a signature"),
        (_set("members", 0, "role", "owner"), "'worker' or 'master'"),
        (_set("members", 0, "role", "worker"), "at least one master"),
        (_set("members", 0, "node", "../x"), "members.0..node"),
        (_set("members", 0, "node", "two"), "each node once, sorted"),
        (_set("members", 0, "key", "2" * 64), "a different key for each node"),
        (_set("members", 1, "max_norm", -1), "a number above 0 or null"),
        (_set("members", 1, "max_norm", 1), "a number above 0 or null"),
        (_set("members", 1, "max_norm", True), "a number above 0 or null"),
        (_set("members", []), "at least one master"),
        (_set("more", 1), "unknown key 'more'"),
    ],
    ids=count(),
)
def test_a_wrong_roster_is_corrupt(change: Any, told: str) -> None:
    """Each mistake is named."""
    value = json.loads(encode(attrs.evolve(added(FIRST, TWO), signature="e" * 128)))
    change(value)
    with pytest.raises(Corrupt, match=told):
        parse(plain.encode(value))


def test_the_first_roster_may_have_several_masters() -> None:
    """Sorted by name, whatever the order of the keys."""
    roster: Roster = founded(RUN, OWNER, {"b": "2" * 64, "a": "1" * 64})
    assert ["a", "b"] == [m.node for m in roster.members]
    assert roster.may_lead("b")
    assert not roster.may_lead("c")
