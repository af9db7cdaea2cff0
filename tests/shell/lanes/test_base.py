"""What all lanes share before and after they touch anything."""

import pytest

from speedtronic.errors import Corrupt, Missing
from speedtronic.shell.lanes.base import Copy, check_commit, grow


def test_all_mistakes_are_told_together() -> None:
    """One line each, so that they are mended together."""
    with pytest.raises(ValueError) as caught:
        check_commit({"../a": b"", "b": b"", "c": Copy("/d")}, ["b", "x y"])
    assert 4 == len(str(caught.value).splitlines())


def test_the_grown_tree_is_new() -> None:
    """The tree that is committed upon is not changed."""
    tree = {"a": 1}
    assert {"b": 2} == grow("here", tree, {"b": 2}, {}, ["a"])
    assert {"a": 1} == tree


def test_what_is_absent_is_named() -> None:
    """Deletes and sources of copies alike."""
    with pytest.raises(Missing, match="here: no 'b', 'c'"):
        grow("here", {"a": 1}, {}, {"d": "c"}, ["b"])


def test_collisions_are_of_the_result() -> None:
    """A name may take the place of one that collides and goes."""
    assert {"A": 2} == grow("here", {"a": 1}, {"A": 2}, {}, ["a"])
    with pytest.raises(Corrupt, match="here: 'A' and 'a'"):
        grow("here", {"a": 1}, {"A": 2}, {}, [])
