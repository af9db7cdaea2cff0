"""Parsers of text that a person, or another program, wrote: configs and names."""

import json
from pathlib import Path
from random import Random
from typing import Any

import yaml
from properties.fuzz.arena import Arena
from properties.fuzz.mutate import (
    NAMES,
    RAW,
    any_bytes,
    change_bytes,
    change_json,
    change_value,
)
from properties.fuzz.target import Target

from speedtronic.errors import ConfigError
from speedtronic.pure.blobname import check_name, collision, name_problem
from speedtronic.pure.config import Config
from speedtronic.pure.config.fields import FIELDS
from speedtronic.pure.round import names
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.config import (
    apply_override,
    config_from_dict,
    load_config,
    to_dict,
)

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = [path.read_text() for path in sorted(CONFIGS.glob("*.yaml"))]
PLAIN = to_dict(Config())
PLAIN["model"]["kwargs"] = {"width": 3, "names": ["a", {"b": None}]}
PLAIN["data"]["sources"] = [{"path": "a.txt", "weight": 2.0}, {"dataset": "me/it"}]
FRAGMENTS = (
    "&a",
    "*a",
    "<<: *a",
    "<<: [*a, *a]",
    "a: &a [*a]",
    "!!python/object/apply:os.system ['touch pwned']",
    "!!python/name:os.system",
    "!!binary aGVsbG8=",
    "!!set {a, b}",
    "!x y",
    "!<tag:yaml.org,2002:str> a",
    "---\n",
    "...\n",
    "%YAML 1.1\n---\n",
    "? a\n: b\n",
    "- - - - - -",
    "[" * 400,
    "[" * 400 + "]" * 400,
    "{a: " * 400 + "1" + "}" * 400,
    "- " * 400,
    "? " * 400,
    "a:\n" + "".join(" " * i + "a:\n" for i in range(1, 120)),
    "|\n  text\n",
    ">-\n\ttab\n",
    "\t",
    "\ufeff",
    "\x00",
    "\x85\u2028",
    "'",
    '"',
    "#",
    "0o777",
    "0x" + "f" * 2000,
    "1" * 5000,
    ".inf",
    ".nan",
    "1e999",
    "2001-01-01",
    "{}",
    "[]",
    "=",
    "<<",
    ": ",
    "run: {run: {run: {}}}",
    "model: gpt\n",
)
TYPED = tuple(NAMES) + ("dir:../../x", "hub:a/b", "os:system", "gpt", "1e4", "null")


def _bomb(random: Random) -> str:
    """Aliases of aliases: little text for very many values."""
    wide, deep = random.choice((2, 9, 50)), random.choice((3, 9, 30))
    lines = ["a0: &a0 [x, x]"]
    for level in range(1, deep):
        inner = ", ".join([f"*a{level - 1}"] * wide)
        kind = random.choice(("[{}]", "{{k: [{}]}}", "{{<<: [{}]}}"))
        lines.append(f"a{level}: &a{level} {kind.format(inner)}")
    return "\n".join(lines)


def _yaml(random: Random) -> bytes:
    kind = random.randrange(8)
    if kind == 0:
        return _bomb(random).encode()
    if kind in (1, 2):
        some = {name: PLAIN[name] for name in random.sample(sorted(PLAIN), 3)}
        raw = change_value(random, some, TYPED)
        text = yaml.safe_dump(raw, sort_keys=False, allow_unicode=True)
        return text.encode("utf-8", "surrogatepass")
    text = random.choice(FILES)
    for _ in range(1 + random.randrange(3)):
        lines = text.split("\n")
        at = random.randrange(len(lines))
        part = random.choice((*FRAGMENTS, *NAMES))
        if random.random() < 0.5:
            lines[at] = lines[at].partition(":")[0] + ": " + part
        else:
            lines.insert(at, random.choice(("", "  ")) + part)
        text = "\n".join(lines)
    if random.random() < 0.1:
        return text.encode(random.choice(("utf-16", "utf-32", "utf-8-sig")))
    data = text.encode("utf-8", "surrogatepass")
    return change_bytes(random, data) if random.random() < 0.3 else data


def _parse_file(ending: str) -> Any:
    def parse(data: bytes, arena: Arena) -> None:
        path = arena.root / f"config{ending}"
        path.write_bytes(data)
        config = load_config(path)
        # What loads can be written, and is then read as the same.
        again = config_from_dict(from_json(to_json(to_dict(config, reveal=True))))
        assert config == again

    return parse


def _assignment(random: Random) -> bytes:
    path = random.choice(sorted(FIELDS))
    value = random.choice((*FRAGMENTS, *TYPED, *RAW))
    if random.random() < 0.3:
        path = random.choice((*NAMES, f"{path}.x", f"{path}.{path}", "data", "lr"))
    text = f"{path}={value}" if random.random() < 0.9 else value
    return text.encode("utf-8", "surrogatepass")


def _override(data: bytes, arena: Arena) -> None:
    text = data.decode("utf-8", "surrogateescape")  # as a command line has it
    config_from_dict(apply_override({}, text))


def _name(random: Random) -> bytes:
    node, stream, digest = "node-1", "00000000000000aa", "f" * 64
    text = f"nodes/{node}/{stream}-{random.randrange(10**6)}-{digest}.safetensors"
    if random.random() < 0.3:
        text = f"rounds/{random.randrange(99)}/{random.choice(NAMES)}"
    at = random.randrange(len(text) + 1)
    end = random.randrange(at, len(text) + 1)
    part = random.choice((*NAMES, "", "\u0660", "\n", "/", "0" * 20))
    return (text[:at] + part + text[end:]).encode("utf-8", "surrogatepass")


def _names(data: bytes, arena: Arena) -> None:
    """Whatever reads a name agrees on which ones stay below a root."""
    text = data.decode("utf-8", "surrogateescape")
    problem = name_problem(text)
    assert problem is None or "\n" not in problem
    if problem is None:
        place = (arena.root / text).resolve()
        assert place.is_relative_to(arena.root.resolve()) and check_name(text) == text
    found = names.delta_names((text,))
    assert all(name.path == text and problem is None for name in found)
    round = names.kept_round(text)
    assert round is None or text.startswith(f"rounds/{round}/")
    collision([text, "a/b", text.lower()])
    for check in (names.check_node, names.parse_delta, check_name):
        try:
            assert check(text)
        except ValueError as error:
            assert "\n" not in str(error)


TARGETS = (
    Target(
        name="config, YAML",
        make=_yaml,
        parse=_parse_file(".yaml"),
        errors=(ConfigError,),
    ),
    Target(
        name="config, JSON",
        make=lambda random: change_json(random, PLAIN, more=TYPED),
        parse=_parse_file(".json"),
        errors=(ConfigError,),
    ),
    Target(name="override", make=_assignment, parse=_override, errors=(ConfigError,)),
    Target(name="names", make=_name, parse=_names, errors=()),
    Target(
        name="strict JSON",
        make=lambda random: change_json(
            random, json.loads(to_json(PLAIN)), lambda v: to_json(v).encode()
        ),
        parse=lambda data, arena: to_json(from_json(data)),
        errors=(ValueError,),
        line=False,
    ),
    Target(
        name="nothing at all",
        make=any_bytes,
        parse=_parse_file(".yaml"),
        errors=(ConfigError,),
    ),
)
