"""Laws of config files, their overrides and their mistakes."""

import json
from typing import Any, get_args, get_origin

import attrs
from hypothesis import assume, given
from hypothesis import strategies as st

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config, Secret
from speedtronic.pure.config.checks import problems
from speedtronic.pure.config.fields import FIELDS, SECTIONS, value_at
from speedtronic.shell.config import (
    apply_override,
    config_from_dict,
    to_dict,
    to_yaml,
)
from speedtronic.shell.config_file import dump_yaml, parse_json, parse_yaml

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
awkward = st.sampled_from(
    ["1e4", "no", "null", "~", "<<", "010", "1_0", "- a", "#", ""]
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text | awkward,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(text | st.sampled_from(sorted(SECTIONS)), inner, max_size=4)
    ),
    max_leaves=12,
)
finite = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
    | awkward,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3)
    ),
    max_leaves=8,
)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a config field's type; most keep the field's own check."""
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(-2, 10**6)
    if kind is float:
        return st.floats(-2, 1e6, allow_nan=False)
    if kind is str:
        return text | awkward
    if kind is Secret:
        return text
    if kind is type(None):
        return st.none()
    if attrs.has(kind):
        return st.fixed_dictionaries(
            {}, optional={a.name: values(a.type) for a in attrs.fields(kind)}
        )
    if get_origin(kind) is tuple:
        element, *more = get_args(kind)
        size = (0, 3) if more == [...] else (1 + len(more),) * 2
        return st.lists(values(element), min_size=size[0], max_size=size[1])
    if get_origin(kind) is dict:
        return st.dictionaries(text, finite, max_size=2)
    return st.one_of([values(part) for part in get_args(kind)])


@st.composite
def raws(draw: st.DrawFn) -> dict[str, Any]:
    """Configs in full form whose types are right, with a few fields given."""
    raw: dict[str, Any] = {}
    for path in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=6)):
        field = FIELDS[path]
        section = raw.setdefault(field.section, {}) if field.section else raw
        section[field.name] = draw(values(field.type))
    return raw


def built(raw: Any) -> Config | None:
    """The config, or None for the one kind of error that may come instead."""
    try:
        return config_from_dict(raw)
    except ConfigError as error:
        assert error.problems and all("\n" not in line for line in error.problems)
        return None


@given(raws())
def test_a_config_read_back_is_the_same_config(raw: dict[str, Any]) -> None:
    """config -> YAML -> config and config -> JSON -> config are the identity."""
    config = built(raw)
    if config is None:
        return

    as_yaml = to_yaml(config, reveal=True)
    as_json = json.dumps(to_dict(config, reveal=True), allow_nan=False)
    kept = attrs.evolve(config.distributed, token=None)
    hidden = config.distributed.token in (None, Secret("***"))
    expected = attrs.evolve(config, distributed=kept) if hidden else config
    assert expected == config_from_dict(parse_yaml(as_yaml, "round trip"))
    assert expected == config_from_dict(parse_json(as_json, "round trip"))


@given(raws())
def test_a_config_never_contradicts_its_own_rules(raw: dict[str, Any]) -> None:
    """What loads has no open problem, and loading twice changes nothing."""
    config = built(raw)

    if config is not None:
        assert [] == problems(config)
        assert config == config_from_dict(raw)


@given(finite)
def test_what_is_written_is_what_is_read(value: Any) -> None:
    """The YAML writer and reader are inverse to each other, types included."""
    assert repr({"x": value}) == repr(parse_yaml(dump_yaml({"x": value}), "f"))


@given(st.dictionaries(text | st.sampled_from(sorted(FIELDS)), plain, max_size=5))
def test_any_mapping_is_a_config_or_a_config_error(raw: dict[str, Any]) -> None:
    """No other exception, whatever stands in it."""
    built(raw)


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            "run:|{|}|[|]|,|\n|  |- |&a|*a|<<: |1e4|!x|'|\"|lr: |#".split("|")
        )
    ).map("".join)
)
def test_any_text_is_a_config_or_a_config_error(source: str) -> None:
    """The reader raises one kind of error."""
    for parse in (parse_yaml, parse_json):
        try:
            raw = parse(source, "f")
        except ConfigError:
            continue
        if isinstance(raw, dict):
            built(raw)


@given(st.data(), st.sampled_from(sorted(FIELDS)))
def test_an_override_reaches_every_field(data: st.DataObject, path: str) -> None:
    """``path=value`` says what a file with that value says."""
    value = data.draw(values(FIELDS[path].type))
    section, name = FIELDS[path].section, FIELDS[path].name
    raw = {section: {name: value}} if section else {name: value}
    nested = isinstance(value, list | dict)
    flow = json.dumps(value, ensure_ascii=False) if nested else dump_yaml([value])[2:]
    assume(not nested or flow.isprintable())  # YAML has no others unescaped
    overridden = apply_override({}, f"{path}={flow}")

    assert built(raw) == built(overridden)


@given(st.sampled_from(sorted(FIELDS)), raws())
def test_an_override_changes_nothing_else(path: str, raw: dict[str, Any]) -> None:
    """All other fields keep their values."""
    before = built(raw)
    if before is None:
        return
    default = json.dumps(to_dict(Config()), default=str)
    value: Any = json.loads(default)
    for name in path.split("."):
        value = value[name]
    after = built(apply_override(raw, f"{path}={json.dumps(value)}"))
    if after is None:
        return

    same = {"run.log_every": "logging.every_steps", "precision.dtype": "precision.mode"}
    touched = {path, same.get(path, path)}
    assert [] == [
        p
        for p in FIELDS
        if p not in touched and value_at(before, p) != value_at(after, p)
    ]


@given(st.sampled_from(sorted(FIELDS)), st.sampled_from("-_xl"), st.integers(0, 30))
def test_a_misspelt_field_is_answered_with_a_right_path(
    path: str, letter: str, place: int
) -> None:
    """With one letter too many the line suggests a path that exists."""
    field = FIELDS[path]
    place = min(place, len(field.name))
    wrong = field.name[:place] + letter + field.name[place:]
    if f"{field.section}.{wrong}".lstrip(".") in FIELDS:
        return
    raw: Any = {field.section: {wrong: 1}} if field.section else {wrong: 1}
    try:
        config_from_dict(raw)
        raise AssertionError("accepted")
    except ConfigError as error:
        (line,) = error.problems

    hint = line.partition("did you mean ")[2].rstrip("?")
    assert [] == [p for p in hint.split(" or ") if p not in FIELDS | SECTIONS]
