"""Parsers of what lies on a lane: manifests, headers, run files, cards, listings."""

import hashlib
import json
from random import Random
from typing import Any

from properties.fuzz.arena import Arena
from properties.fuzz.mutate import NAMES, change_bytes, change_json, change_value
from properties.fuzz.target import Target

from speedtronic.errors import ConfigError, Corrupt, DeviceError, LaneError
from speedtronic.pure import card
from speedtronic.pure.config import Config
from speedtronic.pure.config.fields import shared
from speedtronic.pure.round import header, manifest, names, plain, record, run_file
from speedtronic.pure.round.run_file import RunFile, StoreAt
from speedtronic.shell.distributed.joining import Found, join_run
from speedtronic.shell.distributed.look import read_view
from speedtronic.shell.distributed.published import SETTINGS
from speedtronic.shell.distributed.recording import open_recording, walk
from speedtronic.shell.distributed.trust import Trust
from speedtronic.shell.lanes import DirectoryLane
from speedtronic.shell.lanes.hub.tree import Trees
from speedtronic.shell.lanes.hub.trouble import Failed
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.shell.paths import run_folder
from speedtronic.testing.runs import recorded_run

LANE = MemoryLane()
HEAD = recorded_run(LANE, rounds=4, waiting=2)
REVISION = str(LANE.head())
CONTENT = {name: LANE.read(name, REVISION) for name in LANE.names("", REVISION)}
PLAIN = {**manifest.to_plain(HEAD), "signature": None}
HASH, WORD = "0" * 64, "0" * 16
MORE = (HASH, WORD, "accepted", "drop", [HASH], HEAD.accepted[0].path, *NAMES)


def header_values() -> dict[str, Any]:
    """A header as plain values."""
    name = HEAD.accepted[0]
    return header.to_plain(
        header.Header(
            run=HEAD.run,
            lineage=HEAD.lineage,
            node=name.node,
            stream=name.stream,
            life=WORD,
            seq=name.seq,
            after=None,
            base_round=HEAD.round,
            base_id=HEAD.round_id,
            cursor=3,
            inner_steps=50,
            tokens=800,
            codec="none",
            payload=HASH,
            payload_bytes=400,
        )
    )


def seal(value: Any) -> bytes:
    """Canonical, with the sum of its own content where that has one."""
    signature = {k: value[k] for k in ("signature",) if k in value}
    value = {k: item for k, item in value.items() if k not in ("id", "signature")}
    return plain.encode({**value, **signature, "id": plain.digest(value)})


def _manifest(data: bytes, arena: Arena) -> None:
    found, signature = manifest.parse_signed(data)
    assert data == manifest.encode(found, signature)


def _header(data: bytes, arena: Arena) -> None:
    found = header.parse(data)
    assert data == header.encode(found)
    assert names.parse_delta(found.name.path) == found.name


def _record(data: bytes, arena: Arena) -> None:
    found = record.from_plain(plain.decode(data, "record", 1 << 20))
    assert data == plain.encode(record.to_plain(found))


def record_values() -> dict[str, Any]:
    """A checkpoint's record as plain values."""
    known = HEAD.ledger[0]
    pending = record.Pending(header=header.from_plain(header_values()))
    return record.to_plain(
        record.Record(
            node=known.node,
            lineage=HEAD.lineage,
            stream=pending.header.stream,
            run=HEAD.run,
            serial=HEAD.serial,
            base_round=HEAD.round,
            base_id=HEAD.round_id,
            known=known,
            seq=4,
            pending=pending,
        )
    )


def _run_values() -> dict[str, Any]:
    agreed = shared(Config())
    for own in ("run.name", "model.init_from"):
        del agreed[own]
    run = RunFile(
        version="3.0.0",
        recipe={"config": agreed, "data": HASH, "model": {}, "frozen": None},
        settings={path: None for path in SETTINGS},
        init_from=None,
        stores=(StoreAt(field="data.store", fingerprint=HASH, tokens=9, bytes=9),),
    )
    value = json.loads(run_file.encode(run))
    value["recipe"]["config"]["data.tokenizer"] = f"sha256:{TOKENIZER}"
    return dict(value)


TOKENIZER = hashlib.sha256(b"{}").hexdigest()
RUN = _run_values()
NODE_FIELDS = {  # what no recipe may say
    "run.output_dir": "../..",
    "data.cache_dir": "..",
    "logging.file": "../canary",
    "logging.json_file": "../canary",
    "data.text_path": "/etc/passwd",
    "distributed.state_dir": "..",
    "distributed.token": "secret",
    "distributed.node_id": "../x",
    "checkpoint.directory": "../..",
    "model.name": "os:system",
    "data.tokenizer": "os:system",
    "data": {"store": "x"},
    "run": 3,
    "": 3,
}


def _run_file(random: Random) -> bytes:
    value = json.loads(json.dumps(RUN))
    if random.random() < 0.5:
        place = random.choice((value["recipe"]["config"], value["settings"]))
        key = random.choice(sorted(NODE_FIELDS))
        place[key] = random.choice((NODE_FIELDS[key], random.choice(NAMES)))
        if random.random() < 0.7:
            return seal(value)
    if random.random() < 0.5:  # deep in the recipe, where most of it is
        value["recipe"] = change_value(random, value["recipe"], MORE)
        return seal(value) if random.random() < 0.9 else change_json(random, value)
    return change_json(random, value, seal, MORE)


def _join(data: bytes, arena: Arena) -> None:
    run = run_file.parse(data)
    assert data == run_file.encode(run)
    lane = MemoryLane()
    stores = {f"tokens/{HASH}/parts.json": b"{}", "tokenizer.json": b"{}"}
    revision = lane.commit(stores, parent=None)
    found = Found(place="memory:", lane=lane, revision=revision, manifest=HEAD, run=run)
    joining = join_run(found, [], role="worker", trust=False)
    folder = (arena.root / run_folder(joining.config)).resolve()
    assert folder.is_relative_to(arena.root.resolve())
    assert all(line.isprintable() for line in joining.lines)


def _card_values() -> bytes:
    facts = card.Facts(since=1, steps=9, tokens=99, curve=(card.Point(1, 5.0, None),))
    about = card.About(title="a", version="3", parameters=9, loading="so")
    return card.card(about, HEAD, facts).encode()


CARD = _card_values()


def _card_bytes(random: Random) -> bytes:
    before, _, last = CARD.strip().rpartition(b"\n")
    start, end = b"<!-- speedtronic ", b" -->"
    value = json.loads(last[len(start) : -len(end)])
    told = change_json(random, value, plain.encode)
    return before + b"\n" + start + told + end + b"\n"


def _card(data: bytes, arena: Arena) -> None:
    """Never an error: a page that somebody wrote over is no mistake."""
    facts = card.recalled(data, 3)
    point = card.Point(4, 3.0, 2.0)
    after = card.counted(facts, 4, [header.from_plain(header_values())], point)
    about = card.About(title="a", version="3", parameters=9, loading="so")
    page = card.card(about, HEAD, after).encode()
    assert len(page) <= card.MAX_CARD_BYTES


class _Listing(MemoryLane):
    """A lane on which one name has other content."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__()
        self.commit({**CONTENT, name: data}, parent=None)


def _reads(place: str) -> Any:
    def parse(data: bytes, arena: Arena) -> None:
        lane = _Listing(place, data)
        read_view(lane, str(lane.head()), Trust())
        recording = open_recording(lane)
        for link in walk(recording, recording.head.round):
            assert link.problem == "" or link.problem.isprintable()

    return parse


def _kept(random: Random) -> bytes:
    return change_json(random, json.loads(CONTENT[KEPT]), seal, MORE)


KEPT = names.kept(2, names.MANIFEST)


def _entry(random: Random) -> bytes:
    value = {
        "serial": 1,
        "previous": None,
        "nonce": "0" * 32,
        "message": "first",
        "tree": {"a/b": [hashlib.sha256(b"x").hexdigest(), 1], "c": ["../canary", 1]},
    }

    def sealed(changed: Any) -> bytes:
        body = json.dumps(changed, sort_keys=True).encode()
        return hashlib.sha256(body).hexdigest().encode() + b"\n" + body

    return change_json(random, value, sealed, MORE)


def _log(data: bytes, arena: Arena) -> None:
    root = arena.root / "lane"
    lane = DirectoryLane.create(root)
    (root / "blobs" / hashlib.sha256(b"x").hexdigest()).write_bytes(b"x")
    (root / "log" / "000000000001").write_bytes(data)
    head = lane.head()
    assert head is not None
    for name in lane.names("", head):
        assert b"sings" != lane.read(name, head)
    lane.problems()


def _lane_file(data: bytes, arena: Arena) -> None:
    root = arena.root / "named"
    DirectoryLane.create(root)
    (root / "lane.json").write_bytes(data)
    try:
        DirectoryLane(root)
    finally:
        (root / "lane.json").unlink()


class _Client:
    """The Hub's answer to a listing."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def address(self, path: str) -> str:
        return path

    def pages(self, url: str) -> Any:
        yield from self._answer


def _listing(random: Random) -> bytes:
    value = [
        {"type": "file", "path": "manifest.json", "size": 9, "oid": "a" * 40},
        {"type": "directory", "path": "nodes", "oid": "b" * 40},
        {
            "type": "file",
            "path": "nodes/x/y.safetensors",
            "size": 9,
            "oid": "a" * 40,
            "lfs": {"oid": HASH, "size": 9},
        },
    ]
    return change_json(random, value, lambda v: json.dumps(v).encode(), MORE)


def _hub(data: bytes, arena: Arena) -> None:
    from speedtronic.shell.lanes.hub.reply import Reply

    answer = Reply(200, {}, data).json()
    client: Any = _Client(answer if isinstance(answer, list) else [answer])
    tree = Trees(client).at("a" * 40)
    for name, entry in tree.entries.items():
        assert (arena.root / name).resolve().is_relative_to(arena.root.resolve())
        assert entry.key.split("-")[1].isalnum() and entry.size >= 0


TARGETS = (
    Target(
        name="manifest",
        make=lambda random: change_json(random, PLAIN, seal, MORE),
        parse=_manifest,
        errors=(Corrupt,),
    ),
    Target(
        name="manifest, bytes",
        make=lambda random: change_bytes(random, manifest.encode(HEAD)),
        parse=_manifest,
        errors=(Corrupt,),
    ),
    Target(
        name="header",
        make=lambda random: change_json(random, header_values(), plain.encode, MORE),
        parse=_header,
        errors=(Corrupt,),
    ),
    Target(
        name="record",
        make=lambda random: change_json(random, record_values(), plain.encode, MORE),
        parse=_record,
        errors=(Corrupt,),
    ),
    Target(
        name="run file and join",
        make=_run_file,
        parse=_join,
        errors=(ConfigError, DeviceError, LaneError),
    ),
    Target(name="card", make=_card_bytes, parse=_card, errors=()),
    Target(
        name="newest manifest of a lane",
        make=lambda random: change_json(random, PLAIN, seal, MORE),
        parse=_reads(names.MANIFEST),
        errors=(LaneError,),
    ),
    Target(
        name="kept manifest of a lane",
        make=_kept,
        parse=_reads(KEPT),
        errors=(LaneError,),
    ),
    Target(
        name="log of a lane", make=_entry, parse=_log, errors=(LaneError,), line=False
    ),
    Target(
        name="lane.json",
        make=lambda random: change_json(
            random, {"format": "speedtronic lane", "version": 1}
        ),
        parse=_lane_file,
        errors=(LaneError,),
    ),
    Target(name="listing of the Hub", make=_listing, parse=_hub, errors=(Failed,)),
)
