"""The starter config: a small model that trains at once, and every other field."""

import attrs

from speedtronic.pure.config import Config
from speedtronic.pure.config.fields import FIELDS, SECTIONS, Field
from speedtronic.shell.config_file import dump_yaml
from speedtronic.shell.config_words import default_words

_ACTIVE = {
    "run.name": "my-run",
    "run.max_steps": 500,
    "model.vocab_size": 256,
    "model.n_layer": 2,
    "model.n_head": 4,
    "model.d_model": 128,
    "data.micro_batch_size": 8,
    "data.target_batch_size": 8,
    "optimizer.lr": 0.001,
    "evaluation.every_steps": 100,
}
_HEAD = """\
# A config for Speedtronic. A line that starts with "#" shows a field's default:
# remove the "# " to change it. Set data.text_path to train on your own text.
#
#   speedtronic validate --config {path}
#   speedtronic train --config {path}
"""


def starter(path: str) -> str:
    """The text of a new config file.

    Args:
        path: where it will stand, for the commands it shows.

    >>> from speedtronic.shell.config import config_from_dict
    >>> from speedtronic.shell.config_file import parse_yaml
    >>> config_from_dict(parse_yaml(starter("my.yaml"), "my.yaml")).run.name
    'my-run'
    """
    lines = [_HEAD.format(path=path)]
    help_of = {a.name: a.metadata["help"] for a in attrs.fields(Config)}
    for section in SECTIONS:
        lines.append(f"{section}:  # {help_of[section]}")
        fields = [f for f in FIELDS.values() if f.section == section]
        lines += [_line(f, "  ") for f in fields] + [""]
    fields = [f for f in FIELDS.values() if not f.section]
    lines += [_line(f, "") for f in fields]
    return "\n".join(lines) + "\n"


def _line(field: Field, indent: str) -> str:
    if field.path in _ACTIVE:
        value = dump_yaml({field.name: _ACTIVE[field.path]}).rstrip("\n")
    else:
        value = f"# {field.name}: {default_words(field)}"
    return f"{indent + value:34}  # {field.help}"
