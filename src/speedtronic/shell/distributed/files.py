"""The files of a run on a lane: the global model, its momentum, and deltas.

All are safetensors. The global model may go under the names of another library, such
as Llama's; its metadata then says which tensor is which, so that a reader needs no
table of ours. The bytes of a file depend on nothing but its content, so whoever
repeats a round can compare sums.

Absent on purpose: what is read from a delta (see `speedtronic.shell.delta_file`), and
every decision.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import attrs
import torch
from torch import Tensor

from speedtronic.errors import Corrupt, Damaged
from speedtronic.pure.delta import Delta, Weights, named, non_finite
from speedtronic.pure.outer import OuterState
from speedtronic.pure.round import header as headers
from speedtronic.pure.round import names
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import File
from speedtronic.pure.strict_json import parse
from speedtronic.pure.tensor_header import MAX_HEADER, label
from speedtronic.shell import blobs
from speedtronic.shell.atomic import Digest
from speedtronic.shell.delta_file import DeltaFile

HEADER = "header"  # metadata of a delta's file: the header's text
SIGNED = (SIGNATURE, SIGNER) = ("signature", "signer")  # metadata of a signed one
NOT_SIGNED: Mapping[str, str] = {}
PLACES = "places"  # metadata of the global model: tensor name to params.* or buffers.*


@attrs.frozen(kw_only=True)
class Payload:
    """What a delta's tensors are as bytes."""

    sha256: str
    bytes: int
    finite: bool


def payload_of(delta: Delta) -> Payload:
    """The sum that a header announces, over the tensors in the file's order.

    Names, types and shapes are in it, so that no two deltas have the same one.

    >>> payload_of(Delta(params={"w": torch.ones(2)}, buffers={})).bytes
    8
    """
    tensors = _untied(named(delta))
    digest = hashlib.sha256()
    size = 0
    for name in blobs.order(tensors):
        x = tensors[name]
        data = blobs.bytes_of(x)
        digest.update(label(name, x.dtype, x.shape))
        digest.update(data)
        size += len(data)
    return Payload(sha256=digest.hexdigest(), bytes=size, finite=not non_finite(delta))


def write_delta(
    path: Path, delta: Delta, header: Header, signed: Mapping[str, str] = NOT_SIGNED
) -> None:
    """Write a delta with its header, and its signature, as one new file.

    Raises:
        StorageError: it cannot be written.
    """
    text = headers.encode(header).decode()
    blobs.write(path, _untied(named(delta)), {HEADER: text, **signed})


def read_header(file: DeltaFile) -> Header:
    """The header of an open delta.

    Raises:
        Corrupt: there is none, or it is not exactly a header, or the file is not
            written as `write_delta` does. What no sum and no signature covers would be
            a place to change.
    """
    known = {"format", HEADER, *SIGNED}
    ours = file.metadata.keys() <= known and file.metadata.get("format") == "pt"
    if not (ours and file.exact):
        raise Corrupt("its file is not written as a delta's is")
    return headers.parse(file.metadata.get(HEADER, "").encode())


def write_global(
    folder: Path, state: OuterState, renamed: Mapping[str, str]
) -> tuple[File, File]:
    """Write weights and momentum into ``folder``; return their manifest entries.

    Args:
        folder: must not hold files of these names.
        state: of the round.
        renamed: the name in the file for each tensor that has another one there.

    Raises:
        StorageError: a file cannot be written.
        ValueError: a parameter and a buffer share a name.
    """
    weights = write_weights(folder / names.WEIGHTS, state.weights, renamed)
    momentum = blobs.write(folder / names.MOMENTUM, _untied(state.momentum))
    return (
        File(names.WEIGHTS, weights.sha256, weights.size),
        File(names.MOMENTUM, momentum.sha256, momentum.size),
    )


def write_weights(path: Path, weights: Weights, renamed: Mapping[str, str]) -> Digest:
    """Write the global model alone, as a new file; see `write_global`.

    Raises:
        StorageError, ValueError: as `write_global` does.
    """
    tensors: dict[str, Tensor] = {}
    places: dict[str, str] = {}
    for part in ("params", "buffers"):
        for name, x in sorted(getattr(weights, part).items()):
            stored = renamed.get(name, name)
            if stored in tensors:
                raise ValueError(f"the model has two tensors of the name {stored!r}")
            tensors[stored], places[stored] = x, f"{part}.{name}"
    metadata = {PLACES: json.dumps(places, sort_keys=True)}
    return blobs.write(path, _untied(tensors), metadata)


def most_bytes(likes: Weights) -> int:
    """How large a file of the global model, or of its momentum, can be.

    >>> most_bytes(Weights(params={"w": torch.ones(2)}, buffers={})) - MAX_HEADER
    24
    """
    tensors = [*likes.params.values(), *likes.buffers.values()]
    return sum(x.numel() * max(8, x.itemsize) for x in tensors) + MAX_HEADER + 8


def read_weights(path: Path) -> Weights:
    """The global model of a file that `write_global` wrote.

    Raises:
        Damaged: it cannot be read, or does not say which tensor is which.
    """
    tensors = blobs.read(path)
    parts: dict[str, dict[str, Tensor]] = {"params": {}, "buffers": {}}
    for stored, (part, name) in _places(path).items():
        if part not in parts or stored not in tensors:
            raise _unplaced(path, stored)
        parts[part][name] = tensors.pop(stored)
    if tensors:
        raise Damaged(f"{path} holds tensors without a place: {', '.join(tensors)}")
    return Weights(params=parts["params"], buffers=parts["buffers"])


def read_renamed(path: Path) -> dict[str, str]:
    """The ``renamed`` with which a global model was written.

    Raises:
        Damaged: it cannot be read, or does not say which tensor is which.
    """
    places = _places(path).items()
    return {name: stored for stored, (_, name) in places if name != stored}


def read_global(weights: Path, momentum: Path, round: int) -> OuterState:
    """The state that a published round left.

    Raises:
        Damaged: a file cannot be read or is not of this form.
    """
    return OuterState(
        weights=read_weights(weights),
        momentum=blobs.read(momentum),
        round=torch.tensor(round),
    )


def _places(path: Path) -> dict[str, tuple[str, str]]:
    """For each tensor of a global model's file, its part and its name there."""
    try:
        told = parse(blobs.metadata(path)[PLACES], 1)
        split = {stored: place.partition(".") for stored, place in told.items()}
    except (KeyError, ValueError, AttributeError) as error:
        raise _unplaced(path, error) from None
    return {stored: (part, name) for stored, (part, _, name) in split.items()}


def _unplaced(path: Path, why: object) -> Damaged:
    return Damaged(f"{path} does not say which tensor is which: {why}")


def _untied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor with a storage of its own, so that a file holds each of them."""
    seen: set[object] = set()
    found = {}
    for name, x in tensors.items():
        key = blobs.storage_of(x)
        found[name] = x.clone() if key in seen else x
        seen.add(key)
    return found
