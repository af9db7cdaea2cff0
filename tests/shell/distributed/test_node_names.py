"""A node's name becomes part of paths: from anywhere, it is held to one form."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from properties.fuzz.round_targets import PLAIN, header_values, record_values, seal
from properties.fuzz.signed_targets import ROSTER

from speedtronic.errors import ConfigError, Corrupt
from speedtronic.pure.round import header, manifest, names, plain, record, roster
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.distributed import identity
from speedtronic.shell.distributed.identity import NODE_VARIABLE, node_name
from speedtronic.shell.keys import key_file

BAD = [
    "..",
    "../x",
    "a/b",
    "/etc",
    ".hidden",
    "a.",
    "con",
    "x" * 65,
    "a\n",
    "\u0661",
    "",
]
Source = Callable[[str], object]


def of_config(name: str) -> object:
    return config_from_dict({"distributed": {"node_id": name, "enabled": True}})


def of_collaborators(name: str) -> object:
    return config_from_dict({"distributed": {"collaborators": [name]}})


def of_header(name: str) -> object:
    return header.from_plain({**header_values(), "node": name})


def of_lease(name: str) -> object:
    value = json.loads(json.dumps(PLAIN))
    value["lease"]["node"] = name
    return manifest.parse(seal(value))


def of_ledger(name: str) -> object:
    value = json.loads(json.dumps(PLAIN))
    next(iter(value["ledger"].values()))["node"] = name
    return manifest.parse(seal(value))


def of_accepted(name: str) -> object:
    value = json.loads(json.dumps(PLAIN))
    stream = f"{'0' * 16}-1-{'f' * 64}.safetensors"
    value["accepted"][0] = f"nodes/{name}/{stream}"
    return manifest.parse(seal(value))


def of_checkpoint(name: str) -> object:
    return record.from_plain({**record_values(), "node": name})


def of_roster(name: str) -> object:
    value: dict[str, Any] = json.loads(json.dumps(ROSTER))
    value["members"][0]["node"] = name
    return roster.parse(plain.encode(value))


def of_listing(name: str) -> object:
    path = f"nodes/{name}/{'0' * 16}-1-{'f' * 64}.safetensors"
    if not names.delta_names((path,)):
        raise Corrupt("it is nobody's")
    return path


SOURCES: dict[str, Source] = {
    "the config": of_config,
    "collaborators": of_collaborators,
    "a key's name": key_file,
    "a delta's header": of_header,
    "a manifest's lease": of_lease,
    "a manifest's ledger": of_ledger,
    "an accepted delta": of_accepted,
    "a checkpoint": of_checkpoint,
    "a roster": of_roster,
    "a listing": of_listing,
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", BAD)
def test_a_bad_name_is_refused(source: str, name: str) -> None:
    """By the error that the source documents."""
    with pytest.raises((ConfigError, Corrupt)):
        SOURCES[source](name)


@pytest.mark.parametrize("name", [n for n in BAD if n])
def test_a_bad_name_in_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variable that it came from; an empty one says nothing."""
    monkeypatch.setenv(NODE_VARIABLE, name)
    with pytest.raises(ConfigError, match=NODE_VARIABLE):
        node_name(config_from_dict({}))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_name_of_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody chose it, so another one is made of it."""
    monkeypatch.delenv(NODE_VARIABLE, raising=False)
    monkeypatch.setattr(identity.platform, "node", lambda: name)
    assert names.is_node(node_name(config_from_dict({})))
