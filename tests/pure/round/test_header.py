"""The header: canonical, strict, and its id names all of it."""

import json
from typing import Any

import attrs
import pytest
from tests.pure.round.values import genesis, header

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain
from speedtronic.pure.round.header import Header, disagreement, encode, parse, to_plain

HEAD = header(genesis())


def test_a_header_survives_the_lane() -> None:
    """What is written is read, with the same id."""
    again = parse(encode(HEAD))
    assert HEAD == again
    assert HEAD.id == again.id


def test_the_id_is_the_hash_of_the_text() -> None:
    """So the id names every field."""
    assert plain.digest(json.loads(encode(HEAD))) == HEAD.id


@pytest.mark.parametrize("field", [a.name for a in attrs.fields(Header)])
def test_every_field_is_in_the_id(field: str) -> None:
    """A header that differs anywhere is another delta."""
    value = getattr(HEAD, field)
    other: Any = value + 1 if isinstance(value, int) else "b" * 16
    assert HEAD.id != attrs.evolve(HEAD, **{field: other}).id


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", 2),
        ("sign", "current-minus-base"),
        ("run", "x"),
        ("lineage", "1a" * 31),
        ("node", "../x"),
        ("node", "con"),
        ("stream", "AB" * 8),
        ("life", None),
        ("seq", 0),
        ("after", ""),
        ("base_round", -1),
        ("base_id", 7),
        ("cursor", 2**53),
        ("inner_steps", 1.5),
        ("tokens", "800"),
        ("codec", "../../x"),
        ("payload", "7" * 63),
        ("payload_bytes", True),
        ("extra", 1),
    ],
)
def test_a_wrong_field_is_corrupt(field: str, value: Any) -> None:
    """The error names it."""
    with pytest.raises(Corrupt, match=field):
        parse(plain.encode({**to_plain(HEAD), field: value}))


@pytest.mark.parametrize("field", sorted(to_plain(HEAD)))
def test_no_field_may_be_missing(field: str) -> None:
    """There are no defaults on the lane."""
    fields = to_plain(HEAD)
    del fields[field]
    with pytest.raises(Corrupt, match=f"missing key '{field}'"):
        parse(plain.encode(fields))


def test_a_header_is_small() -> None:
    """Larger ones are not even parsed."""
    with pytest.raises(Corrupt, match="at most 4096 bytes"):
        parse(b" " * 5000)


@pytest.mark.parametrize("part", ["node", "stream", "seq", "id"])
def test_header_and_name_must_agree(part: str) -> None:
    """A delta under another one's name is found out."""
    assert "" == disagreement(HEAD, HEAD.name)
    other: Any = 9 if part == "seq" else "ee" * 8
    name = attrs.evolve(HEAD.name, **{part: other})
    assert f"the name says {part}" in disagreement(HEAD, name)
