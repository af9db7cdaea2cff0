"""One checkpoint: a folder of safetensors and JSON that is whole or not there.

::

    step-00001234/
      model.safetensors      parameters and buffers under their own names, and
      config.json            what Hub tools read beside it, if the model has one
      optimizer.safetensors  the optimizer's state, by path; in several files if large
      state.safetensors      key, counters, loss scale: the rest of the state, by path
      extra.safetensors      tensors that describe themselves, if there are any
      state.json             plain values: data cursor, config, versions, exact or not
      manifest.json          size and sha256 of every file, run, step; written last

A checkpoint is never written over: saving a step that is there is refused, or puts a
whole new folder in its place. Nothing in it is ever executed. Which ones to keep, to
delete and to resume from is decided in `speedtronic.shell.checkpoint_folder`.
"""

import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy
import torch
from torch import Tensor

import speedtronic
from speedtronic.errors import CheckpointError, Damaged, StorageError
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.pure.tree import (
    Tree,
    check_same,
    named_leaves,
    tree_map,
    unflatten_like,
    unquoted,
)
from speedtronic.shell import blobs, checkpoint_manifest
from speedtronic.shell.atomic import Digest, create, new_folder
from speedtronic.shell.checkpoint_manifest import (
    Manifest,
    check_file,
    folder_name,
    read_text,
)

MODEL, OPTIMIZER, STATE, EXTRA = (
    f"{name}.safetensors" for name in ("model", "optimizer", "state", "extra")
)
VALUES, HUB_CONFIG = "state.json", "config.json"
_MODEL_PATH = re.compile(r"\.(params|frozen|buffers)\[('.*'|\".*\")\]")
_SHARD = 1 << 28  # bytes of an optimizer file, about
_SHARD_NUMBER = re.compile(r"-\d{5}-of-\d{5}")
_THREADS = max(4, os.cpu_count() or 1)
R = TypeVar("R")


@attrs.frozen(kw_only=True, eq=False)
class Snapshot:
    """Everything that one checkpoint holds; what is saved is what is loaded.

    ``state`` is any pytree of tensors (and None). Its dicts ``params``, ``frozen`` and
    ``buffers``, where it has them, become the model file.
    """

    run_id: str
    step: int
    state: Tree
    values: Mapping[str, Any] = attrs.field(factory=dict)  # plain, as JSON
    tensors: Mapping[str, Tensor] = attrs.field(factory=dict)  # read without a like
    hub_config: Mapping[str, Any] | None = None
    transient: frozenset[str] = frozenset()  # buffers that Hub tools do not expect
    validation_loss: float | None = None
    finite: bool = True  # whether the weights are; saving looks for itself, too
    reasons: tuple[str, ...] = ()  # why resuming may differ from never stopping

    @property
    def exact(self) -> bool:
        """Whether a resumed run has the same bits as one that never stopped."""
        return not self.reasons


def save(folder: Path, snapshot: Snapshot, *, replace: bool = False) -> Path:
    """Write a checkpoint into ``folder`` and return its own folder.

    Args:
        folder: of the run's checkpoints.
        snapshot: what to write.
        replace: whether one of the same step, which is there, makes room; it stays
            until the new one is whole.

    Raises:
        CheckpointError: it cannot be written, or the step is there already; earlier
            checkpoints are untouched and nothing half written is left behind.
        TypeError: a value has no JSON form.
        ValueError: two parts of the model share a name, or a leaf is not a tensor.
    """
    path = folder / folder_name(snapshot.step)
    if path.exists() and not replace:
        raise CheckpointError(f"{path} is there already and is not written over")
    files = _files(snapshot.state, snapshot.transient)
    if snapshot.tensors:
        files[EXTRA] = dict(snapshot.tensors)
    contents: dict[str, bytes | dict[str, Tensor]] = dict(_in_shards(files))
    contents[VALUES] = f"{to_json(_values(snapshot))}\n".encode()
    if snapshot.hub_config is not None:
        contents[HUB_CONFIG] = f"{to_json(snapshot.hub_config)}\n".encode()
    try:
        with (
            new_folder(path, replace=replace) as temporary,
            ThreadPoolExecutor(1) as beside,
        ):
            finite = beside.submit(all_finite, snapshot.state)
            digests = _in_threads(
                lambda name: _write(temporary / name, contents[name]), contents
            )
            manifest = Manifest(
                run_id=snapshot.run_id,
                step=snapshot.step,
                finite=snapshot.finite and finite.result(),
                validation_loss=snapshot.validation_loss,
                files=digests,
            )
            content = checkpoint_manifest.encode(manifest)
            _write(temporary / checkpoint_manifest.FILE, content)
    except StorageError as error:
        raise CheckpointError(
            f"step {snapshot.step} was not saved, earlier checkpoints are untouched:"
            f" {error}"
        ) from error
    return path


def is_saved(folder: Path, snapshot: Snapshot) -> bool:
    """Whether ``folder`` holds a checkpoint of the snapshot's run and step."""
    path = folder / folder_name(snapshot.step)
    try:
        return checkpoint_manifest.read(path).run_id == snapshot.run_id
    except CheckpointError:
        return False


def load(path: Path, like: Tree, *, run_id: str | None = None) -> Snapshot:
    """Read a checkpoint, checking every byte against its manifest.

    Args:
        path: the folder of one checkpoint.
        like: a state with the same structure, shapes and dtypes; leaves go to the
            devices of its leaves. Two leaves that shared storage when saved share it
            again if they do here, and are copies otherwise.
        run_id: the run it must belong to, if that matters.

    Raises:
        Damaged: a file is missing or has other bytes than were written.
        CheckpointError: no such folder, another run's, or another structure than
            ``like``, naming what differs.
    """
    manifest = checkpoint_manifest.read(path)
    if run_id is not None and manifest.run_id != run_id:
        raise CheckpointError(
            f"{path} belongs to run {manifest.run_id}, expected run {run_id}"
        )
    names = [name for name in manifest.files if name.endswith(".safetensors")]
    shards = _in_threads(lambda n: blobs.read(path / n, manifest.files[n]), names)
    files = _joined(shards)
    values = _checked_values(path / VALUES, _read_values(path / VALUES, manifest))
    extra = files.pop(EXTRA, {})
    transient = frozenset(
        name
        for stored in files.get(STATE, {})
        if (name := _model_name(f".{stored}")) is not None
    )
    return Snapshot(
        run_id=manifest.run_id,
        step=manifest.step,
        state=_fill(path, files, like, transient),
        values=values["values"],
        tensors=extra,
        hub_config=_read_hub_config(path, manifest),
        transient=transient,
        validation_loss=manifest.validation_loss,
        finite=manifest.finite,
        reasons=(*values["reasons"], *_other_versions(values["versions"])),
    )


def load_model(path: Path) -> tuple[dict[str, Tensor], Any]:
    """The model alone: its tensors by name, and ``config.json`` or None.

    Raises:
        CheckpointError: as `load` does, for these two files.
    """
    manifest = checkpoint_manifest.read(path)
    if MODEL not in manifest.files:
        raise CheckpointError(f"{path} holds no {MODEL}")
    tensors = blobs.read(path / MODEL, manifest.files[MODEL])
    return tensors, _read_hub_config(path, manifest)


def verify(path: Path) -> Manifest:
    """Read every byte of a checkpoint and return its manifest.

    Raises:
        CheckpointError: as `load` does, but for the structure.
    """
    manifest = checkpoint_manifest.read(path)
    _in_threads(lambda n: check_file(path / n, manifest.files[n]), manifest.files)
    return manifest


def versions() -> dict[str, str]:
    """What the bits of a run may depend on beside its config and its data."""
    return {
        "speedtronic": speedtronic.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
    }


def all_finite(state: Tree) -> bool:
    """Whether all weights are finite: those in ``params``, else every leaf.

    >>> all_finite({"w": torch.tensor([1.0, torch.nan])})
    False
    """
    named = named_leaves(state)
    weights = [x for path, x in named.items() if path.startswith(".params[")]
    return all(
        _is_finite(x)
        for x in weights or named.values()
        if isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())
    )


def _is_finite(tensor: Tensor) -> bool:
    if tensor.dtype == torch.float32 and tensor.device.type == "cpu":
        # A sum is not finite if an element is not. NumPy's takes one pass and no
        # memory, and no part in the training's thread pool.
        with numpy.errstate(all="ignore"):
            if numpy.isfinite(tensor.detach().numpy().sum()):
                return True
    return bool(torch.isfinite(tensor).all())


def owned(tree: Tree) -> Tree:
    """A copy of every tensor in main memory; what is shared stays shared."""
    copies: dict[object, Tensor] = {}

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        key = blobs.storage_of(leaf)
        if key not in copies:
            copies[key] = leaf.detach().to("cpu", copy=True)
        return copies[key]

    return tree_map(copy, tree)


def _values(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "step": snapshot.step,
        "exact": snapshot.exact,
        "reasons": list(snapshot.reasons),
        "versions": versions(),
        "values": dict(snapshot.values),
    }


def _other_versions(told: Mapping[str, str]) -> list[str]:
    return [
        f"saved with {name} {told.get(name)}, continued with {now}"
        for name, now in versions().items()
        if told.get(name) != now
    ]


def _write(path: Path, content: bytes | dict[str, Tensor]) -> Digest:
    if isinstance(content, dict):
        return blobs.write(path, content)
    with create(path) as file:
        file.write(content)
    return file.digest()


def _read_values(path: Path, manifest: Manifest) -> Any:
    if path.name not in manifest.files:
        raise Damaged(f"{path} is not in the manifest")
    text = read_text(path, manifest.files[path.name])
    try:
        return from_json(text)
    except ValueError as error:
        raise Damaged(f"{path} is not what was written: {error}") from None


def _checked_values(path: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `_values` gave, whoever wrote the file."""
    reasons, versions = values.get("reasons"), values.get("versions")
    if (
        isinstance(values.get("values"), dict)
        and isinstance(reasons, list)
        and all(isinstance(reason, str) for reason in reasons)
        and isinstance(versions, dict)
    ):
        return values
    raise Damaged(f"{path} lacks values, reasons or versions")


def _read_hub_config(path: Path, manifest: Manifest) -> Any:
    if HUB_CONFIG not in manifest.files:
        return None
    return _read_values(path / HUB_CONFIG, manifest)


def _in_threads(function: Callable[[str], R], names: Iterable[str]) -> dict[str, R]:
    """Call ``function`` for all names at once; hashing and I/O free the interpreter."""
    names = list(names)
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(names, pool.map(function, names), strict=True))


def _model_name(path: str) -> str | None:
    told = _MODEL_PATH.fullmatch(path)
    return None if told is None else unquoted(told[2])


def _place(path: str, transient: frozenset[str]) -> tuple[str, str]:
    """The file of a leaf and its name in it."""
    name = _model_name(path)
    if name is not None and not (path.startswith(".buffers") and name in transient):
        return MODEL, name
    file = OPTIMIZER if path.startswith(".optimizer") else STATE
    return file, path.removeprefix(".")


def _files(state: Tree, transient: frozenset[str]) -> dict[str, dict[str, Tensor]]:
    files: dict[str, dict[str, Tensor]] = {}
    for path, leaf in named_leaves(state).items():
        if leaf is None:
            continue
        if not isinstance(leaf, Tensor):
            raise ValueError(f"state{path} is {type(leaf).__name__}, expected a tensor")
        file, name = _place(path, transient)
        if name in files.setdefault(file, {}):
            raise ValueError(f"the model has two tensors of the name {name!r}")
        files[file][name] = leaf
    return files


def _in_shards(
    files: Mapping[str, dict[str, Tensor]],
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """The files, a large optimizer cut into several that are hashed at once."""
    for file, tensors in files.items():
        sizes = {name: x.numel() * x.itemsize for name, x in tensors.items()}
        total = sum(sizes.values())
        count = max(1, round(total / _SHARD)) if file == OPTIMIZER else 1
        if count == 1:
            yield file, tensors
            continue
        shards: list[dict[str, Tensor]] = [{} for _ in range(count)]
        position = 0
        for name, tensor in tensors.items():
            shards[min(position * count // total, count - 1)][name] = tensor
            position += sizes[name]
        stem, ending = file.split(".")
        for number, shard in enumerate(shards, 1):
            yield f"{stem}-{number:05d}-of-{count:05d}.{ending}", shard


def _joined(
    shards: Mapping[str, Mapping[str, Tensor]],
) -> dict[str, dict[str, Tensor]]:
    files: dict[str, dict[str, Tensor]] = {}
    for name, tensors in shards.items():
        files.setdefault(_SHARD_NUMBER.sub("", name), {}).update(tensors)
    return files


def _fill(
    path: Path,
    files: Mapping[str, Mapping[str, Tensor]],
    like: Tree,
    transient: frozenset[str],
) -> Tree:
    expected = _files(like, transient)
    told = []
    for file in sorted(expected.keys() | files.keys()):
        try:
            check_same(file, expected.get(file, {}), dict(files.get(file, {})))
        except ValueError as error:
            told.append(str(error))
    if told:
        raise CheckpointError(f"{path} does not fit this run: {'; '.join(told)}")
    placed: dict[object, Tensor] = {}
    taken: set[object] = set()

    def place(leaf_path: str, leaf: Any) -> Any:
        if leaf is None:
            return None
        file, name = _place(leaf_path, transient)
        found = files[file][name]
        source = blobs.storage_of(found)
        key = (blobs.storage_of(leaf), source)
        if key not in placed:
            device = "cpu" if leaf.device.type == "meta" else leaf.device
            placed[key] = found.to(device, copy=source in taken)
            taken.add(source)
        return placed[key]

    return unflatten_like(like, [place(p, x) for p, x in named_leaves(like).items()])
