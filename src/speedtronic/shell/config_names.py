"""The nearest right name to a wrong one."""

import difflib
from collections.abc import Iterable, Sequence

from speedtronic.pure.config.fields import FIELDS

_CLOSE = 0.7  # of difflib's ratio, 1 for equal names; lrr and lr have 0.8


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest, or None if none is close.

    Case does not count, and a hyphen is as good as an underscore.

    >>> nearest("weight-decay", ["lr", "weight_decay"])
    'weight_decay'
    >>> nearest("zzz", ["lr", "weight_decay"]) is None
    True
    """
    plain = {_plain(k): k for k in known}
    found = difflib.get_close_matches(_plain(name), plain, 1, _CLOSE)
    return plain[found[0]] if found else None


def shown(name: str) -> str:
    """A name from outside as a message shows it: on one line, never invisible.

    >>> shown("lr"), shown("a\\n")
    ('lr', "'a\\\\n'")
    """
    return name if name.isprintable() and name.strip() else repr(name)


def did_you_mean(name: str, section: str, here: Sequence[str]) -> str:
    """A hint for an unknown field: its own section first, then all others.

    Args:
        name: the unknown name.
        section: the dotted path of where it stands, empty at the root.
        here: the names that section has.

    >>> did_you_mean("lr", "", ["run", "model"])
    'did you mean optimizer.lr?'
    >>> did_you_mean("weight-decay", "optimizer", ["lr", "weight_decay"])
    'did you mean optimizer.weight_decay?'
    >>> did_you_mean("colour", "scheduler", ["name", "warmup_steps"])
    'scheduler has name, warmup_steps'
    """
    prefix = f"{section}." if section else ""
    near = nearest(name, here)
    paths = [] if near is None else [prefix + near]
    if near is None or _plain(near) != _plain(name):
        # A right name in the wrong section beats a similar one in this section.
        paths = _fields_named(name) or paths
    if not paths and (close := nearest(name, _ELSEWHERE)):
        paths = _fields_named(close)
    if paths:
        return f"did you mean {' or '.join(paths)}?"
    return f"{section or 'a config'} has {', '.join(here)}"


def _fields_named(name: str) -> list[str]:
    """Paths of the fields of all sections that go by exactly this name."""
    plain = _plain(name)
    if plain in _OTHER_NAMES:
        return [_OTHER_NAMES[plain]]
    return [f.path for f in FIELDS.values() if f.name == plain]


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


_OTHER_NAMES = {  # what other tools call our fields
    "accumulation_steps": "data.target_batch_size",
    "batch_size": "data.micro_batch_size",
    "context_length": "model.max_seq_len",
    "gradient_accumulation_steps": "data.target_batch_size",
    "hidden_size": "model.d_model",
    "learning_rate": "optimizer.lr",
    "num_heads": "model.n_head",
    "num_layers": "model.n_layer",
}
_ELSEWHERE = {f.name for f in FIELDS.values()} | _OTHER_NAMES.keys()
