"""The short ways to write a config, all of 2.0's among them, brought to full form.

In full form every value stands at ``section.field``. Both spellings of one field may
be given when they agree; when they do not, that is a mistake and not a question of
order.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from speedtronic.pure.config import Secret
from speedtronic.pure.config.fields import SECTIONS

Path = tuple[str, ...]

_RENAMED = {"hub": "distributed", "diloco": "distributed"}
_AT_ROOT: dict[str, Path] = {
    **{
        name: ("run", name)
        for name in ("name", "seed", "device", "max_steps", "output_dir", "log_every")
    },
    "muon_plus": ("optimizer", "muon_plus"),
    "cautious": ("optimizer", "cautious"),
    "gradient_checkpointing": ("model", "gradient_checkpointing"),
}
_BARE: dict[str, tuple[type, str]] = {  # a section given as one value
    "optimizer": (str, "name"),
    "precision": (str, "mode"),
    "compile": (bool, "enabled"),
    "shape_validation": (bool, "enabled"),
}
_SAME_FIELD: dict[Path, Path] = {
    ("run", "log_every"): ("logging", "every_steps"),
    ("precision", "dtype"): ("precision", "mode"),
}
_SAYS_NOTHING: dict[Path, Any] = {  # these values, there, are as good as absent
    ("run", "log_every"): None,
    ("precision", "dtype"): None,
    ("shape_validation", "alignment"): None,
    ("distributed", "token"): repr(Secret("")),  # as a printed config shows it
}
_YIELDS: dict[Path, Any] = {("precision", "mode"): "auto"}  # to another spelling


def canonical(path: Path, value: Any) -> Path:
    """Where a value belongs that a config or an override puts at ``path``.

    >>> canonical(("max_steps",), 10), canonical(("optimizer",), "muon")
    (('run', 'max_steps'), ('optimizer', 'name'))
    >>> canonical(("hub", "repo_id"), "owner/name")
    ('distributed', 'repo_id')
    """
    path = _place(path, value)
    return _SAME_FIELD.get(path, path)


def says_nothing(path: Path, value: Any) -> bool:
    """Whether a value is the one that a field has when it is not given.

    >>> says_nothing(("log_every",), None), says_nothing(("log_every",), 1)
    (True, False)
    """
    place = _place(path, value)
    return place in _SAYS_NOTHING and bool(value == _SAYS_NOTHING[place])


def _place(path: Path, value: Any) -> Path:
    path = (_RENAMED.get(path[0], path[0]), *path[1:])
    if len(path) > 1:
        return path
    name = path[0]
    if name in _BARE and isinstance(value, _BARE[name][0]):
        return name, _BARE[name][1]
    return _AT_ROOT.get(name, path)


def shorthands() -> dict[str, str]:
    """Every short form and the field it stands for, for the reference page.

    >>> shorthands()["max_steps"], shorthands()["precision: VALUE"]
    ('run.max_steps', 'precision.mode')
    """
    return {
        **{name: ".".join(place) for name, place in _AT_ROOT.items()},
        **{f"{name}: VALUE": f"{name}.{field}" for name, (_, field) in _BARE.items()},
        **_RENAMED,
        **{".".join(a): ".".join(b) for a, b in _SAME_FIELD.items()},
    }


def expand(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The full form of a config, and the contradictions found on the way.

    >>> expand({"max_steps": 10, "precision": "bf16"})
    ({'run': {'max_steps': 10}, 'precision': {'mode': 'bf16'}}, [])
    >>> expand({"max_steps": 10, "run": {"max_steps": 20}})[1]
    ['run.max_steps: also given as max_steps, with another value; keep one']
    """
    full: dict[str, Any] = {}
    told: list[str] = []
    spelled: dict[Path, Path] = {}
    for path, value in _entries(raw):
        place = canonical(path, value)
        section = full.setdefault(place[0], {}) if len(place) == 2 else full
        if not isinstance(section, dict):
            continue  # the section itself is wrong, which is reported for it
        if place in spelled:
            other = section[place[-1]]
            if _same(value, other) or value == _YIELDS.get(place, ...):
                continue
            if other != _YIELDS.get(place, ...):
                told.append(
                    f"{'.'.join(path)}: also given as {'.'.join(spelled[place])}, "
                    f"with another value; keep one"
                )
                continue
        section[place[-1]] = value
        spelled[place] = path
    return full, told


def _entries(raw: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Every value that says something, with the path it was given at."""
    for key, value in raw.items():
        if _RENAMED.get(key, key) in SECTIONS and isinstance(value, Mapping | None):
            given: list[tuple[Path, Any]] = [
                ((key, name), v) for name, v in (value or {}).items()
            ]
        else:
            given = [((key,), value)]
        for path, v in given:
            if not says_nothing(path, v):
                yield path, v


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
