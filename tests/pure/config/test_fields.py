"""The flat list of config fields."""

import attrs
import pytest

from speedtronic.pure.config import Config, Data, Run, Secret
from speedtronic.pure.config.base import file_name, inner_folder
from speedtronic.pure.config.distributed import Distributed
from speedtronic.pure.config.fields import FIELDS, SECTIONS, differences, value_at


def test_every_field_holds_its_default() -> None:
    """The list says what an empty config says."""
    assert {p: f.default for p, f in FIELDS.items()} == {
        p: value_at(Config(), p) for p in FIELDS
    }


def test_every_field_is_described() -> None:
    """Help and scope stand at each field."""
    assert [] == [p for p, f in FIELDS.items() if not f.help or not f.scope]


def test_sections_are_the_attrs_classes_of_the_config() -> None:
    """What is not a section stands at the root."""
    root = {f.path for f in FIELDS.values() if not f.section}

    assert {a.name for a in attrs.fields(Config)} == root | SECTIONS.keys()


def test_differences_see_a_secret_and_do_not_show_it() -> None:
    """Two tokens differ; their text stays hidden."""
    one = Config(distributed=Distributed(token=Secret("a")))
    other = Config(distributed=Distributed(token=Secret("b")))

    assert "{'distributed.token': (***, ***)}" == repr(differences(one, other))


def test_a_run_name_stays_in_its_folder() -> None:
    """A name with slashes or dots alone would be another folder."""
    refused = ["", ".", "..", "a/b", "/a", "a\\b", " a", "a\n", "x" * 101]

    assert refused == [name for name in refused if file_name(name)]
    assert [] == [n for n in ("a", "a.b", "my run", "..a", "ünï") if file_name(n)]


def test_a_bad_run_name_is_refused_at_the_field() -> None:
    """The check stands at the field, whoever builds the config."""
    try:
        Run(name="../x")
    except ValueError as error:
        assert "expected a name without slashes" in str(error)
    else:
        raise AssertionError("accepted")


@pytest.mark.parametrize("name", ["text_path", "dataset", "cache_dir", "tokenizer"])
def test_empty_text_is_refused_at_every_field(name: str) -> None:
    """As a path it would name the working folder."""
    with pytest.raises(ValueError, match=f"{name}: expected some text, found ''"):
        Data(**{name: ""})


def test_checkpoints_stay_in_their_run() -> None:
    """Two runs that shared a folder would delete each other's checkpoints."""
    refused = ["/tmp/x", "..", "../x", "a/../../x", "a\\..\\b", "~/x", "a\n"]

    assert refused == [name for name in refused if inner_folder(name)]
    assert [] == [n for n in ("a", "a/b", ".", "..a", "./a") if inner_folder(n)]
