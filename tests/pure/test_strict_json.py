"""JSON that strict parsers read."""

import json
from pathlib import Path

import numpy
import pytest
import torch

from speedtronic.pure.config.base import Secret
from speedtronic.pure.strict_json import MAX_DEPTH, from_json, parse, to_json


def strict(text: str) -> object:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in {text}")

    return json.loads(text, parse_constant=refuse)


def test_non_finite_numbers_become_null_and_are_named() -> None:
    """Each number that JSON lacks is null, with its text under a pointer."""
    text = to_json({"loss": float("nan"), "norm": float("inf"), "x": -float("inf")})

    assert {
        "loss": None,
        "norm": None,
        "x": None,
        "non_finite": {"/loss": "NaN", "/norm": "Infinity", "/x": "-Infinity"},
    } == strict(text)


def test_finite_objects_have_no_extra_name() -> None:
    """The reserved name stands only where it is needed."""
    assert {"a": 1.5, "b": [True, None]} == strict(
        to_json({"a": 1.5, "b": (True, None)})
    )


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (numpy.float32(0.5), 0.5),
        (numpy.float64("nan"), None),
        (numpy.float16("inf"), None),
        (numpy.longdouble(0.25), 0.25),
        (numpy.int64(7), 7),
        (numpy.bool_(True), True),
        (numpy.array([1.0, -numpy.inf]), [1.0, None]),
        (torch.tensor(2.0), 2.0),
        (torch.tensor(2.0, dtype=torch.bfloat16), 2.0),
        (torch.tensor(float("nan")), None),
        (torch.tensor([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (torch.tensor([]), []),
        (Path("runs/a"), "runs/a"),
        (Secret("hf_abc"), "***"),
        ("\ud800half", "?half"),
        ("a\u2028b\nc", "a\u2028b\nc"),
    ],
    ids=repr,
)
def test_other_types_become_plain_json(value: object, plain: object) -> None:
    """Scalars of NumPy and torch, paths, secrets and odd text have one plain form."""
    line = to_json({"x": value})

    assert plain == strict(line)["x"]  # type: ignore[index]
    assert line.isascii() and "\n" not in line


def test_keys_that_look_like_pointers_come_back() -> None:
    """Slash and tilde in a key are escaped in the pointer."""
    fields = {"a/b": {"~c": [float("inf")]}}

    assert fields == from_json(to_json(fields))


@pytest.mark.parametrize(
    "value", [object(), 1j, {1, 2}, b"x"], ids=lambda v: type(v).__name__
)
def test_a_value_without_a_form_is_refused_by_place(value: object) -> None:
    """Nothing is guessed: the place and the type are named."""
    with pytest.raises(TypeError, match=rf"/a/0: {type(value).__name__} "):
        to_json({"a": [value]})


def test_keys_must_be_text() -> None:
    """A number as a key would read back as text, so it is refused."""
    with pytest.raises(TypeError, match="the key 1 is not text"):
        to_json({"a": {1: 2}})


def test_the_reserved_name_is_refused() -> None:
    """A field may not hide what is not finite."""
    with pytest.raises(ValueError, match="reserved"):
        to_json({"non_finite": 1})


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[1]",
        "3",
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1',
        '{"a": 1} {"b": 2}',
        b'{"a": "\xff"}',
        b"{\x00}\x00",
        '{"non_finite": {"/a": "NaN"}, "a": [1], "b": 2, "non_finite": 3}',
        '{"non_finite": {"/a/0": "NaN"}, "a": []}',
        '{"non_finite": {"/a/b": "NaN"}}',
        '{"a": null, "non_finite": {"/a": "x"}}',
        '{"a": null, "non_finite": {"/a": "1.5"}}',
        '{"a": 3, "non_finite": {"/a": "NaN"}}',
        '{"a": [null], "non_finite": {"/a": "NaN"}}',
        '{"a": 1, "a": 1}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 101 + "}",
        '{"a": "\\ud800"}',
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=repr,
)
def test_what_is_not_strict_json_is_refused(line: str | bytes) -> None:
    """Every kind of damage is a ValueError."""
    with pytest.raises(ValueError):
        from_json(line)


@pytest.mark.parametrize(
    "text", ['"[[["', '"\\"[[["', '"\\\\"', '{"]]]": "\\\\\\"[[["}']
)
def test_brackets_in_text_nest_nothing(text: str) -> None:
    """Only what stands outside of strings counts, whatever is escaped in them."""
    assert json.loads(text) == parse(text, max_depth=1)


@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_limited_before_anything_nests(before: str, after: str) -> None:
    """As deep as allowed is read; one more is refused, whatever the recursion limit."""
    parse(before * MAX_DEPTH + "1" + after * MAX_DEPTH)
    for depth in (MAX_DEPTH + 1, 10**6):
        with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH}"):
            parse(before * depth)
