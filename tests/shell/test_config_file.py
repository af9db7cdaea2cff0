"""Config text to plain values."""

import json
from pathlib import Path
from typing import Any

import pytest

from speedtronic.errors import ConfigError
from speedtronic.shell.config_file import (
    MAX_BYTES,
    dump_yaml,
    parse_json,
    parse_yaml,
    read_mapping,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-4", 1e-4),
        ("1.0e-4", 1e-4),
        ("0.0001", 1e-4),
        ("1E5", 1e5),
        (".5", 0.5),
        ("5.", 5.0),
        ("+7", 7),
        ("100_000", 100_000),
        ("0x1F", 31),
        ("0o17", 15),
        ("0", 0),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_", "1_"),
        ("'1e4'", "1e4"),
        ("abc", "abc"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, expected: Any) -> None:
    """Numbers need no dot; yes and no are words."""
    value = parse_yaml(f"x: {text}", "f")["x"]

    assert (expected, type(expected)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x: 010", "f:1:4: not usable as YAML: the number 010 has a leading zero"),
        ("x: !!str 5", "f:1:4: "),
        ("x: !!python/object/apply:os.system [id]", "is not allowed"),
        ("a: 1\na: 2", "f:2:1: not usable as YAML: the key 'a' stands here a second"),
        ("x: {a: 1, a: 2}", "f:1:11: "),
        ("1: x", "expected text as a key, found '1'"),
        ("[a]: x", "expected text as a key, found a seq"),
        ("true: x", "expected text as a key, found 'true'"),
        ("a: [1, 2", "expected ',' or ']'"),
        ("\ta: 1", "cannot start any token"),
        ("a: 1\n---\nb: 2", "found another document"),
        ("a: *b", "found undefined alias 'b'"),
        ("a: &a [*a]", "an alias stands inside what it names"),
        ("a: \x07", "the character U+0007 at position 3"),
        ("a: " + "9" * 5000, "not usable as YAML"),
        ("a: " + "[" * 5000, "nested deeper than 40"),
        ("- " * 5000, "nested deeper than 40"),
        ("? " * 5000, "nested deeper than 40"),
        ("a: 0x" + "f" * 5000, "a number has 5002 digits"),
        ("a: <<", "f:1:4: "),
    ],
)
def test_bad_yaml_is_one_line_with_its_place(text: str, told: str) -> None:
    """Whatever is wrong, the file and if possible the line are named."""
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "f")

    (line,) = caught.value.problems
    assert line.startswith("f:")
    assert told in line
    assert "\n" not in line


@pytest.mark.parametrize("item", ["[{0}]", "{{<<: [{0}]}}"])
def test_aliases_are_counted_for_what_they_stand_for(item: str) -> None:
    """Ten lines cannot stand for a billion values, by alias or by merge."""
    first = "[x]" if item.startswith("[") else "{x: 1}"
    lines = [f"a0: &a0 {first}"] + [
        f"a{i}: &a{i} " + item.format(", ".join([f"*a{i - 1}"] * 9))
        for i in range(1, 10)
    ]

    with pytest.raises(ConfigError, match="more than 100000 values"):
        parse_yaml("\n".join(lines), "f")


def test_aliases_nest_no_deeper_than_brackets() -> None:
    """Also where each line by itself is flat."""
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 200)]

    with pytest.raises(ConfigError, match="deeper than 40, aliases followed"):
        parse_yaml("\n".join(lines), "f")


def test_as_deep_as_allowed_is_read_and_written() -> None:
    """A value that loads fits into every file of a run."""
    deep = "[" * 40 + "]" * 40

    for parse in (parse_yaml, parse_json):
        assert parse(deep, "f") == json.loads(deep)
        with pytest.raises(ConfigError, match="deeper than 40"):
            parse(f"[{deep}]", "f")


def test_ordinary_aliases_and_merges_work() -> None:
    """An anchor may be used, and a merged field overridden."""
    text = "base: &b {lr: 1, eps: 2}\nopt: {<<: *b, lr: 3}\nagain: *b"

    assert {"eps": 2, "lr": 3} == parse_yaml(text, "f")["opt"]
    assert {"lr": 1, "eps": 2} == parse_yaml(text, "f")["again"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1,}', "f:1:"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not usable as JSON"),
        ("[" * 100_000, "nested deeper than 40"),
        ('{"a": 1e999}', "the number 1e999 is too large"),
    ],
)
def test_bad_json_is_one_line(text: str, told: str) -> None:
    """JSON is read as strictly as YAML."""
    with pytest.raises(ConfigError) as caught:
        parse_json(text, "f")

    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["c.yaml", "c.json", "c"])
def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path, name: str) -> None:
    """Files that an editor marked load as if it had not."""
    path = tmp_path / name
    path.write_bytes(b'\xef\xbb\xbf{"seed": 5}')

    assert {"seed": 5} == read_mapping(path)


def test_crlf_lines_read_as_lines(tmp_path: Path) -> None:
    """A file from Windows is the same file."""
    path = tmp_path / "c.yaml"
    path.write_bytes(b"seed: 5\r\nname: a\r\n")

    assert {"seed": 5, "name": "a"} == read_mapping(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"# only a comment\n", "expected sections with fields, found nothing"),
        (b"- a\n", "expected sections with fields, found a list"),
        (b"abc", "expected sections with fields, found a str"),
        (b"a: caf\xe9", "expected UTF-8, found the byte 0xe9 at byte offset 6"),
        (b"\xff\xfea\x00", "expected UTF-8, found the byte 0xff at byte offset 0"),
        (b"a: " + b"x" * MAX_BYTES, "expected at most 1048576 bytes"),
    ],
)
def test_an_unusable_file_is_one_line(
    tmp_path: Path, content: bytes, told: str
) -> None:
    """The line names the file and what is wrong with it."""
    path = tmp_path / "c.yaml"
    path.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        read_mapping(path)
    assert str(caught.value).startswith(f"{path}")
    assert told in str(caught.value)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    """Both are the user's to mend."""
    with pytest.raises(ConfigError, match="no such file"):
        read_mapping(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match="is a folder, expected a file"):
        read_mapping(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_mapping(Path("a\0b"))


@pytest.mark.parametrize("text", ["1e4", "yes", "null", "0o7", "1_0", "", "<<", "é\n"])
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    """The writer quotes by the reader's rules."""
    assert {"x": text} == parse_yaml(dump_yaml({"x": text}), "f")
