"""The starter config."""

import re

from speedtronic.pure.config.fields import FIELDS
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.config_file import parse_yaml
from speedtronic.shell.config_starter import starter

_COMMENTED = re.compile(r"^( *)# (\w+: )", re.MULTILINE)


def test_the_starter_config_loads() -> None:
    """It is valid as it stands, and trains on made-up data."""
    config = config_from_dict(parse_yaml(starter("c.yaml"), "c.yaml"))

    assert config.data.text_path is None and config.data.synthetic


def test_every_commented_line_shows_the_default() -> None:
    """Removing every "# " changes nothing."""
    text = starter("c.yaml")
    uncommented = _COMMENTED.sub(r"\1\2", text)

    assert text != uncommented
    assert config_from_dict(parse_yaml(text, "c.yaml")) == config_from_dict(
        parse_yaml(uncommented, "c.yaml")
    )


def test_every_field_is_in_it_once() -> None:
    """With its help, in its section."""
    raw = parse_yaml(_COMMENTED.sub(r"\1\2", starter("c.yaml")), "c.yaml")
    nested = {
        f"{section}.{name}"
        for section, fields in raw.items()
        if isinstance(fields, dict)
        for name in fields
    }
    root = {name for name, value in raw.items() if not isinstance(value, dict)}

    assert set(FIELDS) == nested | root
    assert [] == [f.path for f in FIELDS.values() if f.help not in starter("c.yaml")]
