"""Which names are names, and which are attacks."""

import pytest

from speedtronic.pure.blobname import (
    MAX_NAME,
    MAX_PART,
    check_name,
    collision,
    name_problem,
    obstacles,
)


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "README.md",
        "nodes/node-1/3f2a-000012-9c.safetensors",
        "rounds/12/a_b-c.d",
        "0",
        "console",
        "com10.txt",
        "/".join(["p" * MAX_PART] * 1 + ["q" * (MAX_NAME - MAX_PART - 1)]),
    ],
)
def test_ordinary_names_pass(name: str) -> None:
    """A name that passes is given back as it is."""
    assert name == check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "/etc/passwd",
        "a/",
        "a//b",
        ".",
        "..",
        "../a",
        "a/../b",
        "a/..",
        "a/./b",
        ".git/config",
        "a/.hidden",
        "-rf",
        "_a",
        "~/a",
        "a\\b",
        "..\\a",
        "C:",
        "C:/a",
        "a:b",
        "a b",
        " a",
        "a ",
        "a\n",
        "a\0b",
        "a\x7f",
        "a\u2028b",
        "\u00e9",
        "a\u0301",
        "\uff0e\uff0e/a",
        "\u0661",
        "a%2e%2e",
        "a*",
        "a?",
        "$HOME",
        "a.",
        "a./b",
        "con",
        "CON",
        "nul.txt",
        "a/aux/b",
        "Com1.tar.gz",
        "lpt9",
        "p" * (MAX_PART + 1),
        "a/" * (MAX_NAME // 2) + "bb",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    """With a message that shows the name, escaped and never in full length."""
    problem = name_problem(name)
    assert problem is not None
    assert problem.isprintable()
    assert len(problem) < 3 * MAX_NAME
    with pytest.raises(ValueError, match="name"):
        check_name(name)


@pytest.mark.parametrize("name", [None, 3, b"a", ["a"]])
def test_what_is_no_text_is_no_name(name: object) -> None:
    """JSON from elsewhere may hold anything."""
    assert "expected text" in str(name_problem(name))


def test_what_is_in_the_way() -> None:
    """A name under it, a file where a folder has to be, another spelling."""
    there = ["rounds/1/manifest.json/x", "rounds", "Rounds/2/y", "run.json"]
    wanted = ["rounds/1/manifest.json"]
    assert sorted(there[:3]) == obstacles(there, wanted)
    assert collision([*wanted, "run.json"]) is None
    assert [] == obstacles(wanted, wanted)
