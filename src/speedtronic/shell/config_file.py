"""Config text, YAML or JSON, to plain values and back.

YAML is read by the rules of YAML 1.2, so that ``1e-4`` is a number and ``no`` is
text; unlike there, digits may be grouped (``100_000``) and a leading zero is refused,
because YAML 1.1 and 1.2 disagree about its value. Deliberately absent: tags (nothing
is constructed but plain values), several documents, keys that are not text.
Everything is bounded: the size of a file, its depth, and what its aliases stand for.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from speedtronic.errors import ConfigError
from speedtronic.pure import strict_json

MAX_BYTES = 1 << 20
MAX_VALUES = 100_000  # values a text may stand for, aliases counted each time
MAX_DEPTH = 40  # values inside each other, aliases followed
_PREFIX = "tag:yaml.org,2002:"
_RESOLVERS = (  # kind, pattern, first characters; the first match wins
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (
        "int",
        r"[-+]?[0-9]+(?:_[0-9]+)*|0o[0-7]+|0x[0-9a-fA-F]+",
        list("-+0123456789"),
    ),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain scalars, no tags, no key twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.composer.ComposerError(
                None, None, f"the tag {event.tag} is not allowed", event.start_mark
            )
        return super().compose_node(parent, index)

    def get_single_node(self) -> Any:
        node = super().get_single_node()
        if node is not None:
            _check_node(node, {})
        return node

    # Depth is limited where tokens are made: all that comes later calls itself, and
    # looking for keys takes longer the more brackets are open.
    def fetch_flow_collection_start(self, kind: Any) -> None:
        self._check_depth()
        super().fetch_flow_collection_start(kind)

    def add_indent(self, column: int) -> Any:
        if column > self.indent:
            self._check_depth()
        return super().add_indent(column)

    def _check_depth(self) -> None:
        if self.flow_level + len(self.indents) >= MAX_DEPTH:
            raise yaml.scanner.ScannerError(
                None,
                None,
                f"values are nested deeper than {MAX_DEPTH}",
                self.get_mark(),
            )


class _Dumper(yaml.SafeDumper):
    """Quotes what `_Loader` would not read back as text; repeats, never aliases."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _kind, _pattern, _first in _RESOLVERS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            _PREFIX + _kind, re.compile(rf"(?:{_pattern})\Z"), _first
        )


def _construct_int(loader: _Loader, node: Any) -> int:
    text = node.value.replace("_", "")
    if len(text) > strict_json.MAX_DIGITS:
        raise yaml.constructor.ConstructorError(
            None, None, f"a number has {len(text)} digits", node.start_mark
        )
    if re.fullmatch(r"[-+]?0[0-9]+", text):
        raise yaml.constructor.ConstructorError(
            None, None, f"the number {node.value} has a leading zero", node.start_mark
        )
    return int(text, 0)


def _construct_float(loader: _Loader, node: Any) -> float:
    text = node.value.replace("_", "").lower()
    return float(re.sub(r"\.(inf|nan)$", r"\1", text))


_Loader.add_constructor(_PREFIX + "int", _construct_int)
_Loader.add_constructor(_PREFIX + "float", _construct_float)


def _check_node(node: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values a node stands for, and how deep they are nested.

    Raises for cycles, size, depth and bad keys. Each node is looked at once.
    """
    found = known.get(id(node))
    if found is not None:
        if found == (0, 0):
            _refuse("an alias stands inside what it names", node)
        return found
    known[id(node)] = (0, 0)  # not finished: meeting it again is a cycle
    inner = []
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            _check_key(key, keys)
            inner.append(_check_node(value, known))
    elif isinstance(node, yaml.SequenceNode):
        inner = [_check_node(value, known) for value in node.value]
    size = 1 + sum(size for size, _ in inner)
    depth = 1 + max((depth for _, depth in inner), default=0)
    if size > MAX_VALUES:
        _refuse(f"more than {MAX_VALUES} values, aliases counted each time", node)
    if depth > MAX_DEPTH + 1:
        _refuse(f"values are nested deeper than {MAX_DEPTH}, aliases followed", node)
    known[id(node)] = size, depth
    return size, depth


def _check_key(key: Any, keys: set[str]) -> None:
    kind = key.tag.removeprefix(_PREFIX)
    if not isinstance(key, yaml.ScalarNode) or kind not in ("str", "merge"):
        found = repr(key.value) if isinstance(key, yaml.ScalarNode) else f"a {kind}"
        _refuse(f"expected text as a key, found {found}", key)
    if key.value in keys:
        _refuse(f"the key {key.value!r} stands here a second time", key)
    keys.add(key.value)


def _refuse(problem: str, node: Any) -> None:
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def parse_yaml(text: str, where: str) -> Any:
    """Plain values from YAML.

    Args:
        text: one YAML document.
        where: what to call it in an error.

    Raises:
        ConfigError: with the line and column.

    >>> parse_yaml("lr: 1e-4\\nname: no", "here")
    {'lr': 0.0001, 'name': 'no'}
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        told = ", ".join(filter(None, (error.context, error.problem)))
        raise ConfigError(f"{place}: not usable as YAML: {told}") from None
    except yaml.reader.ReaderError as error:
        raise ConfigError(
            f"{where}: not usable as YAML: the character U+{_code_point(error):04X} "
            f"at position {error.position} may not stand in it"
        ) from None
    except ValueError as error:  # a number beyond Python's own limits
        raise ConfigError(f"{where}: not usable as YAML: {error}") from None


def _code_point(error: yaml.reader.ReaderError) -> int:
    found: Any = error.character
    return found if isinstance(found, int) else ord(found)


def parse_json(text: str, where: str) -> Any:
    """Plain values from JSON, strictly: no key twice, no NaN.

    Raises:
        ConfigError: with the line and column where JSON says them.
    """

    try:
        return strict_json.parse(text, MAX_DEPTH)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{place}: not usable as JSON: {error.msg}") from None
    except ValueError as error:
        raise ConfigError(f"{where}: not usable as JSON: {error}") from None


def read_text(path: Path) -> str:
    """The text of a config file in UTF-8, without a byte-order mark.

    Raises:
        ConfigError: it is missing, a folder, unreadable, too large or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, expected a file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        told = getattr(error, "strerror", None) or error
        raise ConfigError(f"{str(path)!r}: cannot be read: {told}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: expected at most {MAX_BYTES} bytes, found more")
    try:
        return raw.decode("utf-8").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: expected UTF-8, found the byte 0x{raw[error.start]:02x} "
            f"at byte offset {error.start}"
        ) from None


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping at the top of a config file; JSON if it ends in ``.json``.

    Raises:
        ConfigError: as `read_text`, or the text is empty, malformed or no mapping.
    """
    text = read_text(path)
    if not text.strip():
        raise ConfigError(f"{path}: is empty, expected a config")
    parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
    raw = parse(text, str(path))
    if not isinstance(raw, dict):
        found = "nothing" if raw is None else f"a {type(raw).__name__}"
        raise ConfigError(f"{path}: expected sections with fields, found {found}")
    return raw


def dump_yaml(values: Any) -> str:
    """YAML that `parse_yaml` reads back as the same values.

    >>> print(dump_yaml({"a": "1e4", "b": 1e-8}), end="")
    a: '1e4'
    b: 1.0e-08
    """
    text: str = yaml.dump(values, Dumper=_Dumper, sort_keys=False, width=80)
    return text
