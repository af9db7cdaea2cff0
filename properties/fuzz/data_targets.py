"""Parsers of files: token stores, data, metrics and reports."""

import hashlib
import io
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from properties.fuzz.arena import Arena
from properties.fuzz.made import MADE, as_json, lay
from properties.fuzz.mutate import NAMES, change_bytes, change_header, change_json
from properties.fuzz.target import Target

from speedtronic.errors import (
    Corrupt,
    DataError,
    LaneError,
)
from speedtronic.pure.strict_json import to_json
from speedtronic.shell import blobs
from speedtronic.shell.data.documents import TextFiles
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.token_files import TokenFiles
from speedtronic.shell.data.travel import described, fetch_store, push_store
from speedtronic.shell.distributed.report import read_report
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.shell.metrics import read_log, recent_records, resume_log
from speedtronic.shell.summary import read_summary
from speedtronic.shell.swarm_table import NodeStatus, row


def _store(data: bytes, arena: Arena) -> None:
    folder = lay(arena, "store", MADE["store"] | {"store.json": data})
    _use(Store(folder))


def _use(store: Store) -> None:
    """What the data pipeline asks of a store."""
    tokens = store.part(0, store.about.tokens)
    assert len(tokens) == store.about.tokens
    assert store.about.fingerprint and store.files
    if store.about.documents:
        assert tokens.ends[-1] == store.about.tokens


def _pushed() -> tuple[dict[str, bytes], str]:
    lane = MemoryLane()
    with tempfile.TemporaryDirectory() as name:
        for file, data in MADE["store"].items():
            (Path(name) / file).write_bytes(data)
        push_store(lane, Store(Path(name)))
    head = str(lane.head())
    content = {name: lane.read(name, head) for name in lane.names("", head)}
    return content, next(name for name in content if name.endswith("/parts.json"))


PUSHED, PARTS = _pushed()


def _travel(data: bytes, arena: Arena) -> None:
    lane = MemoryLane()
    told = PARTS
    try:  # under the fingerprint that the description has, as its writer would
        told = f"tokens/{described(data, '')[0].fingerprint}/parts.json"
    except Corrupt:
        pass
    moved = {
        name.replace(PARTS.split("/")[1], told.split("/")[1]): content
        for name, content in PUSHED.items()
    }
    lane.commit({**moved, told: data}, parent=None)
    folder = lay(arena, "cache", {})
    _use(fetch_store(lane, told.split("/")[1], folder))


def _documents(data: bytes, arena: Arena) -> None:
    """A store whose list of documents was made up, with all sums right."""
    about = json.loads(MADE["store"]["store.json"])
    about["sha256"]["documents.bin"] = hashlib.sha256(data).hexdigest()
    about["documents"] = len(data) // 16
    files = MADE["store"] | {"documents.bin": data}
    lane = MemoryLane()
    for name, content in files.items():
        (lay(arena, "made", {}) / name).write_bytes(content)
    folder = lay(arena, "made", files | {"store.json": json.dumps(about).encode()})
    push_store(lane, Store(folder))
    cache = lay(arena, "cache", {})
    store = fetch_store(lane, Store(folder).about.fingerprint, cache)
    _use(store)
    ends = store.documents()[:, 0]
    assert (np.diff(ends, prepend=0) > 0).all() and ends[-1] == store.about.tokens


def _token_file(ending: str) -> Any:
    def parse(data: bytes, arena: Arena) -> None:
        path = lay(arena, "ids", {f"a{ending}": data}) / f"a{ending}"
        source = TokenFiles([path], "ids", "uint16", 10)
        for chunk in source.chunks(0, 0):
            assert len(chunk.ids) * chunk.ids.itemsize <= len(data)

    return parse


def _npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(40, dtype=np.int32).reshape(4, 10))
    return buffer.getvalue()


NPY = _npy()


def _npy_bytes(random: Random) -> bytes:
    if random.random() < 0.4:
        return change_bytes(random, NPY)
    shape = random.choice(("(4, 10)", "(-1,)", "(10**9,)", "4", "(2**70, 0)", "()"))
    descr = random.choice(("'<i4'", "'|O'", "'V9'", "[('a', '<i4')]", "'<U4'", "3"))
    extra = random.choice(("", "'x': 1, ", "'shape': (1,), ", "'a': f(1), ", "(" * 90))
    told = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, {extra}}}"
    if random.random() < 0.2:
        told = random.choice(("(" * 9000, "[" * 9000, "{}", "1L", "'\\x", "'\\N{x}'"))
    length = random.choice((len(told), len(told), 2**16 - 1, 0))
    version = random.choice(
        (b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00")
    )
    size = length.to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + size + told.encode() + NPY[-160:]


def _safetensors() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        blobs.write(Path(name) / "a", {"tokens": torch.arange(40).reshape(4, 10)})
        return (Path(name) / "a").read_bytes()


TOKENS = _safetensors()
LINES = [{"text": "a line of text", "more": [1, {"a": None}]}, {"text": ""}]


def _lines(data: bytes, arena: Arena) -> None:
    path = lay(arena, "lines", {"a.jsonl": data}) / "a.jsonl"
    files = TextFiles([path], "a.jsonl", TextRules())
    for piece in files.pieces(0, 0):
        assert isinstance(piece.text, bytes)


RECORDS = [
    {"event": "start", "step": 0, "attempt": 1, "time": 1.0},
    {
        "event": "train_step",
        "attempt": 1,
        "time": 2.0,
        "step": 3,
        "loss": 2.5,
        "validation_loss": None,
        "skipped_steps": 0,
    },
]


def _metrics(data: bytes, arena: Arena) -> None:
    path = lay(arena, "metrics", {"metrics.jsonl": data}) / "metrics.jsonl"
    recent_records(path)
    try:
        list(read_log(path))
    except ValueError:
        pass
    resume_log(path, 5, every=1, last_step=9, clock=lambda: 0.0).close()
    list(read_log(path))


def _metric_lines(random: Random) -> bytes:
    lines = [to_json(record).encode() for record in RECORDS]
    at = random.randrange(len(lines))
    lines[at] = change_json(random, RECORDS[at], lambda v: to_json(v).encode())
    return b"\n".join(lines) + random.choice((b"\n", b"", b"\r\n"))


REPORT = {
    "node": "node-1",
    "state": "training",
    "leads": True,
    "round": 3,
    "base_round": 2,
    "pending": False,
    "steps": 3,
    "bytes_up": 9,
    "bytes_down": 9,
    "commits": 2,
}


def _report(data: bytes, arena: Arena) -> None:
    folder = lay(arena, "node", {"node.json": data, "summary.json": data})
    read_summary(folder)
    if (report := read_report(folder)) is not None:
        status = NodeStatus(node="a", exit_code=None, step=1, loss=2.0, report=report)
        assert all(cell.isprintable() for cell in row(status, 9))


TARGETS = (
    Target(
        name="store.json",
        make=as_json(json.loads(MADE["store"]["store.json"])),
        parse=_store,
        errors=(DataError,),
        line=False,
    ),
    Target(
        name="store on a lane",
        make=as_json(json.loads(PUSHED[PARTS]), more=NAMES),
        parse=_travel,
        errors=(LaneError, DataError),
        line=False,
    ),
    Target(
        name="documents of a store",
        make=lambda random: change_bytes(random, MADE["store"]["documents.bin"] * 3),
        parse=_documents,
        errors=(LaneError, DataError),
        line=False,
        memory=48 << 20,  # pushing reads a part at once
    ),
    Target(
        name="token file, npy",
        make=_npy_bytes,
        parse=_token_file(".npy"),
        errors=(DataError,),
        line=False,
    ),
    Target(
        name="token file, safetensors",
        make=lambda random: change_header(random, TOKENS),
        parse=_token_file(".safetensors"),
        errors=(DataError,),
        line=False,
    ),
    Target(
        name="token file, bin",
        make=lambda random: change_bytes(random, bytes(range(60))),
        parse=_token_file(".bin"),
        errors=(DataError,),
        line=False,
    ),
    Target(
        name="JSON lines",
        make=lambda random: b"\n".join(
            change_json(random, line, lambda v: json.dumps(v).encode())
            for line in LINES
        ),
        parse=_lines,
        errors=(DataError,),
        line=False,
    ),
    Target(name="metrics", make=_metric_lines, parse=_metrics, errors=()),
    Target(name="report of a node", make=as_json(REPORT), parse=_report, errors=()),
)
