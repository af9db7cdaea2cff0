"""Parsers of what a signed run believes: rosters, signed manifests and deltas, keys."""

import json
import os
from random import Random
from typing import Any

from properties.fuzz.arena import Arena
from properties.fuzz.mutate import NAMES, change_bytes, change_json
from properties.fuzz.target import Target

from speedtronic.errors import ConfigError, Corrupt, RunError
from speedtronic.pure.round import manifest, names, plain, roster
from speedtronic.shell.distributed.membership import MEMBERSHIP, read_membership
from speedtronic.shell.distributed.trust import Trust
from speedtronic.shell.keys import create, load
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import made_up_keys, recorded_run

KEYS = made_up_keys()
OWNER = KEYS["node-0"]
LANE = MemoryLane()
HEAD = recorded_run(LANE, rounds=3, keys=KEYS)
DATA = LANE.read(names.MANIFEST, str(LANE.head()))
VALUE = {key: item for key, item in json.loads(DATA).items() if key != "id"}
ROSTER: dict[str, Any] = VALUE["roster"]
MORE = (*NAMES, "0" * 64, "0" * 128, OWNER.public, "master", "worker", 1e308)


def _signed_by_owner(value: Any) -> bytes:
    """A roster as its owner would have signed it."""
    text = {key: item for key, item in value.items() if key != "signature"}
    signature = OWNER.sign(b"speedtronic roster\n" + plain.encode(text))
    return plain.encode({**text, "signature": signature})


def _signed_by_leader(value: Any) -> bytes:
    """A manifest as a leader that may lead would have signed it."""
    told = {key: item for key, item in value.items() if key != "signature"}
    told["roster"] = json.loads(_signed_by_owner(told["roster"]))
    name = plain.digest(told)
    key = KEYS[str(told["lease"]["node"])]
    signature = key.sign(f"speedtronic manifest\n{name}".encode())
    return plain.encode({**told, "id": name, "signature": signature})


def _not_signed(value: Any) -> bytes:
    """A manifest that is right but for its signatures: a stolen token, no key."""
    told = {key: item for key, item in value.items() if key != "signature"}
    return plain.encode(
        {**told, "id": plain.digest(told), "signature": value.get("signature")}
    )


def _roster(data: bytes, arena: Arena) -> None:
    found = roster.parse(data)
    assert data == roster.encode(found)
    trust = Trust(owner=OWNER.public)
    proposal = trust.proposal(data, HEAD)
    assert proposal is None or roster.newer(HEAD.roster, proposal)
    roster.changes(HEAD.roster, found)


def _by_leader(data: bytes, arena: Arena) -> None:
    found = Trust(owner=OWNER.public, signed=True).manifest(data)
    assert found.roster is not None and found.roster.owner == OWNER.public
    assert found.roster.may_lead(found.lease.node)


def _by_thief(data: bytes, arena: Arena) -> None:
    """Whatever is believed says what the run's own leader signed, word for word."""
    found = Trust(owner=OWNER.public, signed=True).manifest(data)
    assert manifest.to_plain(found) == manifest.to_plain(HEAD)


def _key_bytes(random: Random) -> bytes:
    lines = PEM.split(b"\n")
    kind = random.randrange(4)
    if kind == 0:
        return change_bytes(random, PEM)
    if kind == 1:
        lines[1] = change_bytes(random, lines[1])
    elif kind == 2:
        lines[0] = lines[0].replace(b"PRIVATE KEY", random.choice(KINDS))
    else:
        lines = lines * random.choice((2, 100))
    return b"\n".join(lines)


KINDS = (b"RSA PRIVATE KEY", b"ENCRYPTED PRIVATE KEY", b"CERTIFICATE", b"PUBLIC KEY")
PEM = (
    b"-----BEGIN PRIVATE KEY-----\n"
    b"MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
    b"-----END PRIVATE KEY-----\n"
)


def _key(data: bytes, arena: Arena) -> None:
    path = arena.root / "node.pem"
    path.write_bytes(data)
    os.chmod(path, 0o600)
    key = load(path)
    assert len(key.public) == 64
    assert create is not None


def _membership(data: bytes, arena: Arena) -> None:
    (arena.root / MEMBERSHIP).write_bytes(data)
    found = read_membership(arena.root)
    assert found is not None and found.version >= 0


def _json(seal: Any, value: Any) -> Any:
    return lambda random: change_json(random, value, seal, MORE)


TARGETS = (
    Target(
        name="roster",
        make=_json(_signed_by_owner, ROSTER),
        parse=_roster,
        errors=(Corrupt,),
    ),
    Target(
        name="manifest, signed by a leader",
        make=_json(_signed_by_leader, VALUE),
        parse=_by_leader,
        errors=(Corrupt,),
    ),
    Target(
        name="manifest, signed by nobody",
        make=_json(_not_signed, VALUE),
        parse=_by_thief,
        errors=(Corrupt,),
    ),
    Target(name="key", make=_key_bytes, parse=_key, errors=(ConfigError,)),
    Target(
        name="membership",
        make=lambda random: change_json(
            random, {"run": "0" * 16, "owner": OWNER.public, "version": 3}
        ),
        parse=_membership,
        errors=(RunError,),
        line=False,
    ),
)
