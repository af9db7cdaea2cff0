"""Names: the layout's grammar, and nothing outside of it."""

import pytest

from speedtronic.pure.round.names import (
    DeltaName,
    check_life,
    check_node,
    delta_names,
    derive,
    kept_round,
    parse_delta,
)

NAME = DeltaName("node-1", "ab" * 8, 12, "cd" * 32)


def test_a_name_is_built_and_parsed() -> None:
    """The path says node, stream, sequence and id."""
    path = f"nodes/node-1/{'ab' * 8}-12-{'cd' * 32}.safetensors"
    assert path == NAME.path
    assert NAME == parse_delta(path)


def test_a_counted_delta_has_another_place() -> None:
    """It moves under its round, and keeps node and name."""
    assert f"rounds/3/node-1/{'ab' * 8}-12-{'cd' * 32}.safetensors" == NAME.kept(3)
    assert 3 == kept_round(NAME.kept(3))


def test_names_are_ordered_by_node_stream_and_number() -> None:
    """Numbers are numbers: 9 comes before 12."""
    earlier = DeltaName("node-1", "ab" * 8, 9, "ff" * 32)
    assert [earlier, NAME] == sorted([NAME, earlier])


@pytest.mark.parametrize(
    "path",
    [
        "",
        "manifest.json",
        NAME.path + "\n",
        "/" + NAME.path,
        NAME.path.replace("node-1", ".."),
        NAME.path.replace("node-1", "a/b"),
        NAME.path.replace("node-1", "con"),
        NAME.path.replace("node-1", ""),
        NAME.path.replace("node-1", "n" * 65),
        NAME.path.replace("-12-", "-012-"),
        NAME.path.replace("-12-", "--12-"),
        NAME.path.replace("-12-", "-\u0663-"),
        NAME.path.replace("cd" * 32, "CD" * 32),
        NAME.path.replace("ab" * 8, "ab" * 7),
        NAME.path.replace("nodes", "rounds"),
        NAME.path.replace(".safetensors", ".pickle"),
    ],
)
def test_other_names_are_refused(path: str) -> None:
    """There is one way to write a name, and no way out of the lane."""
    with pytest.raises(ValueError, match="expected nodes/<node>/<stream>"):
        parse_delta(path)
    assert () == delta_names((path,))


@pytest.mark.parametrize("node", ["a", "GPU-1", "my.host_2", "x" * 64, "7"])
def test_node_ids(node: str) -> None:
    """Letters, digits, dots, dashes and underscores."""
    assert node == check_node(node)


@pytest.mark.parametrize(
    "node", ["", "-a", "a-", ".", "..", "a/b", "a b", "x" * 65, "nul", "\u00e9", "a\n"]
)
def test_bad_node_ids_are_explained(node: str) -> None:
    """The error shows what was found."""
    with pytest.raises(ValueError, match="node id"):
        check_node(node)


@pytest.mark.parametrize("life", ["", "AB" * 8, "ab" * 7, "zz" * 8, "ab" * 8 + "\n"])
def test_bad_lives_are_refused(life: str) -> None:
    """16 lower-case hex digits and nothing else."""
    with pytest.raises(ValueError, match="16 lower-case hex digits"):
        check_life(life)


def test_words_of_a_life_differ() -> None:
    """By purpose, by count and by life."""
    words = {
        derive(life, purpose, count)
        for life in ("aa" * 8, "bb" * 8)
        for purpose in ("stream", "nonce")
        for count in (0, 1)
    }
    assert 8 == len(words)
    assert all(word == check_life(word) for word in words)


@pytest.mark.parametrize("path", ["rounds/", "rounds/1", "rounds/01/x", "nodes/1/x"])
def test_only_files_of_a_round_have_one(path: str) -> None:
    """Anything else lies there by accident and is left alone."""
    assert kept_round(path) is None
