"""The reference page of the config, made from the config classes.

``python -m speedtronic.shell.config_reference > docs/reference/configuration.md``
"""

import inspect
import sys
from collections.abc import Iterable

from speedtronic.pure.config import Source
from speedtronic.pure.config.fields import FIELDS, SECTIONS, Field, fields_of
from speedtronic.shell.config_shorthand import shorthands
from speedtronic.shell.config_words import default_words, type_words

_HEAD = """\
# Configuration

This page is made from the config classes by
`python -m speedtronic.shell.config_reference`; a test compares the two.

A config file is YAML 1.2 or, if its name ends in `.json`, JSON. Every field may be
left out. `speedtronic init` writes a file with all of them, and
`--set section.field=VALUE` replaces any of them on the command line.

Nothing is converted with a loss: an integer field takes `1e4` but not `1.9`, and
`yes`, `no`, `on` and `off` are text, not `true` and `false`. Digits may be grouped
(`100_000`); a number may not begin with a zero that says nothing (`010`). Tags and
keys given twice are refused, and so is an access token anywhere but in
`distributed.token`, which prints as `***`.

**Scope** says who must agree on a field. A *run* field is part of what is computed:
it is the same on all nodes, and a resumed run may not change it. A *node* field
belongs to one machine. A *free* field may change at any time.
"""

_SHORT = """\
## Short forms

Both spellings of a field may be given if they agree.

| short form | stands for |
| --- | --- |
"""


def reference() -> str:
    """The whole page, in Markdown."""
    root = [f for f in FIELDS.values() if not f.section]
    parts = [_HEAD]
    for name, cls in SECTIONS.items():
        fields = [f for f in FIELDS.values() if f.section == name]
        parts.append(f"## {name}\n\n{inspect.getdoc(cls)}\n\n{_table(fields)}")
        if name == "data":
            elements = fields_of(Source)
            parts.append(
                f"### data.sources\n\n{inspect.getdoc(Source)}\n\n{_table(elements)}"
            )
    parts.append(f"## Outside the sections\n\n{_table(root)}")
    rows = (f"| `{short}` | `{full}` |\n" for short, full in shorthands().items())
    parts.append(_SHORT + "".join(rows))
    return "\n".join(parts)


def _table(fields: Iterable[Field]) -> str:
    rows = (
        f"| `{f.name}` | {type_words(f.type)} | `{default_words(f)}` | {f.scope} "
        f"| {f.help} |\n"
        for f in fields
    )
    head = "| field | type | default | scope | meaning |\n"
    return head + "| --- | --- | --- | --- | --- |\n" + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(reference())
