"""Parsers of files: tensors, checkpoints, runs, token stores and data."""

import hashlib
import io
import json
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from properties.fuzz.arena import Arena
from properties.fuzz.mutate import NAMES, change_bytes, change_header, change_json
from properties.fuzz.round_targets import header_values
from properties.fuzz.target import Target

from speedtronic.errors import (
    CheckpointError,
    ConfigError,
    Corrupt,
    Damaged,
    DataError,
    LaneError,
    ModelError,
    RunError,
)
from speedtronic.pure.config import Config, Model
from speedtronic.pure.delta import Delta, Weights
from speedtronic.pure.outer import OuterRule, init_outer
from speedtronic.pure.round import header
from speedtronic.pure.strict_json import to_json
from speedtronic.pure.transformer import Transformer
from speedtronic.pure.tree import state
from speedtronic.shell import blobs, checkpoint
from speedtronic.shell.checkpoint import Snapshot
from speedtronic.shell.checkpoint_folder import find, resume
from speedtronic.shell.checkpoint_lane import LaneCheckpoints
from speedtronic.shell.data.documents import TextFiles
from speedtronic.shell.data.prepare import prepare_store
from speedtronic.shell.data.source import TextSource
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.token_files import TokenFiles
from speedtronic.shell.data.tokenizers import ByteTokenizer
from speedtronic.shell.data.travel import described, fetch_store, push_store
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.files import (
    read_global,
    read_header,
    read_renamed,
    write_delta,
    write_global,
)
from speedtronic.shell.distributed.report import read_report
from speedtronic.shell.export import export
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.shell.metrics import read_log, recent_records, resume_log
from speedtronic.shell.rundir import RunDirectory
from speedtronic.shell.saved import find_saved
from speedtronic.shell.summary import read_summary
from speedtronic.shell.swarm_table import NodeStatus, row
from speedtronic.shell.weights import load_weights

SMALL = {"vocab_size": 9, "max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 8}
PARAMS = {"w": torch.arange(6.0).reshape(2, 3), "v": torch.ones(6)}
BUFFERS = {"b": torch.tensor([True, False]), "n": torch.tensor(3)}


@state
class Part:
    """A state whose checkpoint has a file of the model and one beside it."""

    params: dict[str, torch.Tensor]
    step: torch.Tensor


STATE = Part(params={"w": torch.arange(6.0)}, step=torch.tensor(3))
LIKE = Part(params={"w": torch.zeros(6)}, step=torch.tensor(0))


def _made() -> dict[str, dict[str, bytes]]:
    """The files of folders that are whole, by folder and name."""
    delta = Delta(params=PARAMS, buffers=BUFFERS)
    weights = Weights(params=PARAMS, buffers=BUFFERS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lane").mkdir()
        write_delta(
            folder / "lane" / "delta", delta, header.from_plain(header_values())
        )
        write_global(folder / "lane", init_outer(weights, OuterRule()), {"w": "m.w"})
        snapshot = Snapshot(
            run_id="r",
            step=3,
            state=STATE,
            tensors={"extra": torch.ones(2)},
            hub_config={"model_type": "x"},
            validation_loss=1.5,
        )
        checkpoint.save(folder, snapshot)
        with RunDirectory.open(folder / "run", "new", Config()):
            pass
        config = Config(model=Model(**SMALL))
        module = Transformer(**SMALL)
        tensors = {k: v.detach() for k, v in module.state_dict().items()}
        export(tensors, config, ByteTokenizer(), folder / "hub")
        text = folder / "text.txt"
        text.write_bytes(b"some text of a few words\n" * 9)
        files = TextFiles([text], "text.txt", TextRules())
        prepared = prepare_store(TextSource(files, ByteTokenizer()), folder / "stores")
        return {
            "lane": _files(folder / "lane"),
            "checkpoint": _files(folder / "step-00000003"),
            "run": _files(folder / "run"),
            "hub": _files(folder / "hub"),
            "store": _files(prepared.folder),
        }


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


MADE = _made()


def _lay(arena: Arena, name: str, files: dict[str, bytes]) -> Path:
    """A folder with these files and no others."""
    folder = arena.root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return folder


def _tensors(data: bytes, arena: Arena) -> None:
    path = _lay(arena, "tensors", {"a": data}) / "a"
    found = blobs.read(path)
    assert blobs.metadata(path) is not None
    size = sum(x.numel() * x.itemsize for x in found.values())
    assert size <= len(data) * max(1, len(found))


def _delta(data: bytes, arena: Arena) -> None:
    path = _lay(arena, "delta", {"a": data}) / "a"
    with open_delta(path) as file:
        found = file.inspect(Weights(params=PARAMS, buffers=BUFFERS))
        assert found.payload_bytes <= len(data)
        read_header(file)


def _global(data: bytes, arena: Arena) -> None:
    files = MADE["lane"] | {"model.safetensors": data}
    folder = _lay(arena, "global", files)
    read_renamed(folder / "model.safetensors")
    read_global(folder / "model.safetensors", folder / "outer.safetensors", 3)


def _seal_checkpoint(value: Any) -> bytes:
    """The text of a checkpoint's manifest with the right sum of itself."""
    value = {key: item for key, item in value.items() if key != "sha256"}
    text = f"{to_json(value)}\n".encode()
    return f"{to_json(value | {'sha256': hashlib.sha256(text).hexdigest()})}\n".encode()


MANIFEST = json.loads(MADE["checkpoint"]["manifest.json"])


def _checkpoint(data: bytes, arena: Arena) -> None:
    files = MADE["checkpoint"] | {"manifest.json": data}
    folder = _lay(arena, "checkpoints/step-00000003", files)
    found = find(folder.parent, "r")
    if found.path is not None:
        assert checkpoint.load(found.path, LIKE).step == 3
    for read in (checkpoint.load, resume):
        try:
            if read is resume:
                resume(folder.parent, LIKE, "r")
            else:
                checkpoint.load(folder, LIKE)
        except CheckpointError:
            continue
    checkpoint.load_model(folder)


def _file_of_checkpoint(name: str) -> Any:
    """Any bytes as a file whose sum the manifest tells right."""

    def parse(data: bytes, arena: Arena) -> None:
        told = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        files = MANIFEST["files"] | {name: told}
        sealed = _seal_checkpoint(MANIFEST | {"files": files})
        content = MADE["checkpoint"] | {name: data, "manifest.json": sealed}
        folder = _lay(arena, "checkpoints/step-00000003", content)
        checkpoint.load(folder, LIKE, run_id="r")

    return parse


def _restore(data: bytes, arena: Arena) -> None:
    root = "checkpoints/run"
    files = MADE["checkpoint"] | {"manifest.json": data}
    lane = MemoryLane()
    adds = {f"{root}/step-00000003/{name}": files[name] for name in files}
    lane.commit({**adds, f"{root}/run.json": b'{"run_id": "r"}'}, parent=None)
    folder = _lay(arena, "restored", {})
    LaneCheckpoints("memory:", "run", lambda: lane).restore(
        folder, folder / "checkpoints", required=True
    )


RUN = json.loads(MADE["run"]["run.json"])
RUN["finish"] = {"step": 3, "max_steps": 3, "max_minutes": None}


def _run(data: bytes, arena: Arena) -> None:
    folder = _lay(arena, "run", {"run.json": data})
    try:
        find_saved(folder)
    except RunError:
        pass
    with RunDirectory.open(folder, "resume", Config()) as run:
        assert run.checkpoints.resolve().is_relative_to(folder.resolve())
        assert run.finished_step is None or run.finished_step >= 0


def _hub_config(data: bytes, arena: Arena) -> None:
    files = MADE["hub"] | {"config.json": data}
    load_weights(Transformer(**SMALL), str(_lay(arena, "hub", files)))


def _hub_index(data: bytes, arena: Arena) -> None:
    files = MADE["hub"] | {"model.safetensors.index.json": data}
    files["part-1.safetensors"] = files.pop("model.safetensors")
    load_weights(Transformer(**SMALL), str(_lay(arena, "hub", files)))


INDEX = {
    "metadata": {"total_size": 9},
    "weight_map": {
        "model.norm.weight": "part-1.safetensors",
        "x": "part-1.safetensors",
    },
}


def _store(data: bytes, arena: Arena) -> None:
    folder = _lay(arena, "store", MADE["store"] | {"store.json": data})
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
    folder = _lay(arena, "cache", {})
    _use(fetch_store(lane, told.split("/")[1], folder))


def _documents(data: bytes, arena: Arena) -> None:
    """A store whose list of documents was made up, with all sums right."""
    about = json.loads(MADE["store"]["store.json"])
    about["sha256"]["documents.bin"] = hashlib.sha256(data).hexdigest()
    about["documents"] = len(data) // 16
    files = MADE["store"] | {"documents.bin": data}
    lane = MemoryLane()
    for name, content in files.items():
        (_lay(arena, "made", {}) / name).write_bytes(content)
    folder = _lay(arena, "made", files | {"store.json": json.dumps(about).encode()})
    push_store(lane, Store(folder))
    cache = _lay(arena, "cache", {})
    store = fetch_store(lane, Store(folder).about.fingerprint, cache)
    _use(store)
    ends = store.documents()[:, 0]
    assert (np.diff(ends, prepend=0) > 0).all() and ends[-1] == store.about.tokens


def _token_file(ending: str) -> Any:
    def parse(data: bytes, arena: Arena) -> None:
        path = _lay(arena, "ids", {f"a{ending}": data}) / f"a{ending}"
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
    path = _lay(arena, "lines", {"a.jsonl": data}) / "a.jsonl"
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
    path = _lay(arena, "metrics", {"metrics.jsonl": data}) / "metrics.jsonl"
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
    folder = _lay(arena, "node", {"node.json": data, "summary.json": data})
    read_summary(folder)
    if (report := read_report(folder)) is not None:
        status = NodeStatus(node="a", exit_code=None, step=1, loss=2.0, report=report)
        assert all(cell.isprintable() for cell in row(status, 9))


def _values(random: Random) -> bytes:
    value = json.loads(MADE["checkpoint"]["state.json"])
    return change_json(random, value, lambda v: to_json(v).encode())


def _json(value: Any, **options: Any) -> Any:
    return lambda random: change_json(
        random, value, lambda v: json.dumps(v).encode(), **options
    )


TARGETS = (
    Target(
        name="tensors",
        make=lambda random: change_header(random, MADE["lane"]["delta"]),
        parse=_tensors,
        errors=(Damaged,),
        line=False,
    ),
    Target(
        name="delta",
        make=lambda random: change_header(random, MADE["lane"]["delta"]),
        parse=_delta,
        errors=(Damaged, Corrupt),
        line=False,
    ),
    Target(
        name="global model",
        make=lambda random: change_header(random, MADE["lane"]["model.safetensors"]),
        parse=_global,
        errors=(Damaged,),
        line=False,
    ),
    Target(
        name="manifest of a checkpoint",
        make=lambda random: change_json(random, MANIFEST, _seal_checkpoint, NAMES),
        parse=_checkpoint,
        errors=(CheckpointError,),
        line=False,
    ),
    Target(
        name="values of a checkpoint",
        make=_values,
        parse=_file_of_checkpoint("state.json"),
        errors=(CheckpointError,),
        line=False,
    ),
    Target(
        name="tensors of a checkpoint",
        make=lambda random: change_header(
            random, MADE["checkpoint"]["state.safetensors"]
        ),
        parse=_file_of_checkpoint("state.safetensors"),
        errors=(CheckpointError,),
        line=False,
    ),
    Target(
        name="checkpoint on a lane",
        make=lambda random: change_json(random, MANIFEST, _seal_checkpoint, NAMES),
        parse=_restore,
        errors=(RunError, LaneError, CheckpointError),
        line=False,
    ),
    Target(
        name="record of a run",
        make=_json(RUN),
        parse=_run,
        errors=(RunError, ConfigError),
        line=False,
    ),
    Target(
        name="config.json beside weights",
        make=_json(json.loads(MADE["hub"]["config.json"])),
        parse=_hub_config,
        errors=(ModelError, ConfigError),
        line=False,
    ),
    Target(
        name="index of weights",
        make=_json(INDEX, more=NAMES),
        parse=_hub_index,
        errors=(ModelError, ConfigError),
        line=False,
    ),
    Target(
        name="store.json",
        make=_json(json.loads(MADE["store"]["store.json"])),
        parse=_store,
        errors=(DataError,),
        line=False,
    ),
    Target(
        name="store on a lane",
        make=_json(json.loads(PUSHED[PARTS]), more=NAMES),
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
    Target(name="report of a node", make=_json(REPORT), parse=_report, errors=()),
)
