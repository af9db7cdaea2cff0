"""The reference page of the config."""

from pathlib import Path

from speedtronic.pure.config.fields import FIELDS
from speedtronic.shell.config_reference import reference

PAGE = Path(__file__).parents[2] / "docs/reference/configuration.md"


def test_the_page_is_current() -> None:
    """Write it anew with ``python -m speedtronic.shell.config_reference > PAGE``."""
    assert reference() == PAGE.read_text(encoding="utf-8")


def test_every_field_has_a_row() -> None:
    """With its name, its scope and its help."""
    rows = [line.split(" | ") for line in reference().splitlines() if "| `" in line]
    told = {(row[0].strip("| `"), row[-2], row[-1].removesuffix(" |")) for row in rows}

    assert [] == [
        f.path for f in FIELDS.values() if (f.name, f.scope, f.help) not in told
    ]
