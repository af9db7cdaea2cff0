"""Whatever bytes lie on a lane or a disk: a value or `Corrupt`, nothing else."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.round.histories import headers, histories

from speedtronic.errors import Corrupt
from speedtronic.pure.round import header as header_format
from speedtronic.pure.round import manifest as manifest_format
from speedtronic.pure.round import names, plain, record

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner)
    ),
    max_leaves=9,
)


def from_record(data: bytes) -> Any:
    return record.from_plain(plain.decode(data, "record", 1 << 16))


PARSERS: dict[str, Callable[[bytes], Any]] = {
    "manifest": manifest_format.parse,
    "header": header_format.parse,
    "record": from_record,
}


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.binary(max_size=200) | JSON.map(lambda v: json.dumps(v).encode()))
def test_anything_is_refused_in_one_line(name: str, data: bytes) -> None:
    """Never a traceback of another kind."""
    with pytest.raises(Corrupt) as caught:
        PARSERS[name](data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2000


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a plain value."""
    found = [path] if path else []
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return found + [p for k, v in items for p in places(v, (*path, k))]


@given(st.data())
def test_a_change_anywhere_is_found_or_harmless(data: st.DataObject) -> None:
    """A manifest with one value replaced is refused, also when its id fits again."""
    manifest = data.draw(histories())[-1]
    value = json.loads(manifest_format.encode(manifest))
    *parents, last = data.draw(st.sampled_from(places(value)))
    target = value
    for key in parents:
        target = target[key]
    target[last] = data.draw(JSON)
    try:
        assert manifest == manifest_format.parse(json.dumps(value).encode())
    except Corrupt:
        pass
    value.pop("id", None)
    try:
        forged = plain.encode({**value, "id": plain.digest(value)})
        again = manifest_format.parse(forged)
    except (Corrupt, ValueError):
        return
    assert forged == manifest_format.encode(again)


@given(st.data())
def test_a_header_is_what_was_written(data: st.DataObject) -> None:
    """And its name says the same."""
    head = data.draw(headers(data.draw(histories())[-1]))
    again = header_format.parse(header_format.encode(head))
    assert head == again
    assert head.name == names.parse_delta(again.name.path)


@given(st.text(max_size=60) | st.from_regex(r"nodes/[^/]*/[0-9a-f]*-[0-9]*-.*"))
def test_only_names_of_the_layout_are_deltas(path: str) -> None:
    """A name that is taken for a delta's is written in exactly one way."""
    for name in names.delta_names((path,)):
        assert path == name.path
        assert ".." not in path.split("/")
