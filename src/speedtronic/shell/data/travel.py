"""Token stores on a lane, so that another machine needs no copy of the text.

::

    tokens/<fingerprint>/tokens.bin/00000      a file of the store, in parts
    tokens/<fingerprint>/parts.json            store.json, and size and sha256 of parts

Parts are committed a few at a time, because commits may be rationed, and
``parts.json`` last, so a store is there when that is, and an interrupted transfer, in
either direction, goes on with the parts that are missing. What is fetched is checked
part by part, and the files as a whole against the hashes that the fingerprint was made
of.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from speedtronic.errors import Corrupt, Missing
from speedtronic.pure.round import plain
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.atomic import explained, sync_folder, write_bytes
from speedtronic.shell.data.prepare import Progress, locked, silent
from speedtronic.shell.data.store import (
    ABOUT,
    DOCUMENTS,
    FILES,
    MASK,
    TOKENS,
    About,
    Store,
    check_documents,
    read_about_of,
)
from speedtronic.shell.lanes.base import ANY, Blob, Lane
from speedtronic.shell.modes import make_folder, open_bytes

PART_BYTES = 32 * 2**20  # of every part but the last of a file
PARTS_PER_COMMIT = 8  # held in memory at once
PARTS = "parts.json"
MAX_PARTS = 2**24  # bytes of that file
_LEAST, _NAME = 8, 16  # characters of a fingerprint: to ask with, and of a folder
_ON_LANE = re.compile(r"(dir|hub):.+@[0-9a-f]{8,64}")
_Parts = dict[str, list[tuple[int, str]]]  # size and sha256 of each part, by file


def is_store(spec: str) -> bool:
    """Whether a path in a config is that of a token store: a folder, or on a lane.

    >>> is_store("hub:me/run@0123456789abcdef"), is_store("books/a.txt")
    (True, False)
    """
    path = Path(spec).expanduser()
    if path.exists():
        return (path / ABOUT).is_file()
    return _ON_LANE.fullmatch(spec) is not None


def is_pushed(lane: Lane, fingerprint: str, revision: str) -> bool:
    """Whether a lane holds all of a store.

    Raises:
        LaneError: as the lane raises.
    """
    root = f"{_root(fingerprint)}/"
    return f"{root}{PARTS}" in lane.names(root, revision)


def push_store(lane: Lane, store: Store, progress: Progress = silent) -> str:
    """Put a store on a lane; nothing is sent that is there already.

    Returns:
        The revision that holds all of it.

    Raises:
        LaneError: as the lane raises; what was sent so far is kept.
    """
    about, head = store.about, lane.head()
    root = _root(about.fingerprint)
    there = lane.names(f"{root}/", head) if head else {}
    if head is not None and f"{root}/{PARTS}" in there:
        return head
    total = sum((store.folder / name).stat().st_size for name in store.files)
    done = 0
    listed: _Parts = {}
    waiting: dict[str, Blob] = {}
    for name in store.files:
        listed[name] = []
        for number, part in enumerate(_parts(store.folder / name)):
            sha256 = hashlib.sha256(part).hexdigest()
            listed[name].append((len(part), sha256))
            # The name holds the hash: a name that is there has these bytes.
            path = f"{root}/{_part_name(name, number, sha256)}"
            if path not in there:
                waiting[path] = part
            done += len(part)
            if len(waiting) == PARTS_PER_COMMIT:
                lane.commit(waiting, parent=ANY, message=f"tokens: {path}")
                waiting = {}
                progress(about.source, done, total)
    if waiting:
        lane.commit(waiting, parent=ANY, message=f"tokens: {path}")
    progress(about.source, total, total)
    told = {"store": attrs.asdict(about), "parts": listed}
    return lane.commit(
        {f"{root}/{PARTS}": to_json(told).encode()},
        parent=ANY,
        message=f"tokens: {about.tokens} of {about.source}",
    )


def fetch_store(
    lane: Lane, fingerprint: str, cache: Path, progress: Progress = silent
) -> Store:
    """The store with a fingerprint, from the cache or from a lane.

    Args:
        lane: where it was pushed.
        fingerprint: of the store, or at least 8 characters of its beginning.
        cache: the folder of stores.
        progress: told how far it is.

    Raises:
        Missing: the lane does not hold it, or not all of it yet.
        Corrupt: what the lane gives is not what it should be.
        LaneError, StorageError: the transfer failed; what arrived is kept.
    """
    if len(fingerprint) < _LEAST:
        raise Missing(f"{fingerprint!r} names no token store: expected 8 characters")
    for folder in cache.glob(f"{fingerprint[:_NAME]}*/"):
        store = Store(folder)
        if store.about.fingerprint.startswith(fingerprint):
            return store
    head = lane.head()
    names = lane.names(_root(fingerprint), head) if head else {}
    found = [name for name in names if name.endswith(f"/{PARTS}")]
    if head is None or len(found) != 1:
        raise Missing(
            f"the lane holds {len(found)} token stores {fingerprint!r}..., expected 1"
        )
    about, parts = described(
        _read_parts(lane, found[0], names[found[0]], head), fingerprint
    )
    folder = cache / about.fingerprint[:_NAME]
    with explained(cache):
        make_folder(cache)
    with locked(cache / f".{folder.name}.lock"):
        if not (folder / ABOUT).exists():
            part = cache / f".{folder.name}.part"
            _fetch(lane, head, about, parts, part, progress)
            with explained(folder):
                os.rename(part, folder)
                sync_folder(cache)
    return Store(folder)


def described(told: bytes, fingerprint: str) -> tuple[About, _Parts]:
    """What a lane says of a store; a lane is not trusted.

    Raises:
        Corrupt: it does not describe the store with this fingerprint.
    """
    try:
        value = plain.record(from_json(told), PARTS, _READERS)
    except (Corrupt, ValueError) as error:
        why = str(error)
    else:
        about, parts = value["store"], value["parts"]
        if not about.fingerprint.startswith(fingerprint):
            why = f"it is of {about.fingerprint[:_NAME]}"
        elif parts.keys() != about.sha256.keys():
            why = "it tells of other files"
        else:
            return about, parts
    raise Corrupt(
        f"{PARTS} of the token store {fingerprint!r} does not describe it: {why}"
    )


def _listed(value: Any, where: str) -> _Parts:
    if not isinstance(value, dict) or not value.keys() <= FILES:
        raise Corrupt(f"{where}: expected parts by file")
    return {
        name: list(plain.array(_part, MAX_PARTS)(listed, f"{where}.{name}"))
        for name, listed in value.items()
    }


def _part(value: Any, where: str) -> tuple[int, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise Corrupt(f"{where}: expected a size and a sum")
    size = plain.integer(1, PART_BYTES)(value[0], where)
    return size, _SHA256(value[1], where)


def _fetch(
    lane: Lane,
    revision: str,
    about: About,
    parts: _Parts,
    folder: Path,
    progress: Progress,
) -> None:
    """Bring all files of a store into a folder, going on with what is there."""
    with explained(folder):
        make_folder(folder)
    total = sum(size for sizes in parts.values() for size, _ in sizes)
    there = lane.names(f"{_root(about.fingerprint)}/", revision)
    done = 0
    for name in sorted(parts):
        path = folder / name
        whole = (path.stat().st_size if path.exists() else 0) // PART_BYTES
        with explained(path), open_bytes(path, "ab") as file:
            file.truncate(whole * PART_BYTES)
            for number, (size, sha256) in enumerate(parts[name]):
                if number >= whole:
                    source = f"{_root(about.fingerprint)}/"
                    source += _part_name(name, number, sha256)
                    arriving = folder / "arriving"
                    part = size, sha256
                    _append(lane, source, revision, part, there, file, arriving)
                done += size
                progress(about.source, done, total)
        if _sha256(path) != about.sha256[name]:
            shutil.rmtree(folder)
            raise Corrupt(f"{name} of the token store {about.fingerprint[:16]}")
    if why := _contradiction(folder, about):
        shutil.rmtree(folder)
        raise Corrupt(f"the token store {about.fingerprint[:16]}: {why}")
    write_bytes(folder / ABOUT, to_json(attrs.asdict(about)).encode())


def _contradiction(folder: Path, about: About) -> str | None:
    """In what the files of a store differ from its description; None if they agree.

    All sums may be right and the content still be made up.
    """
    tokens = np.dtype(about.dtype).newbyteorder("<")
    sizes = {TOKENS: about.tokens * tokens.itemsize, DOCUMENTS: about.documents * 16}
    sizes |= {MASK: about.tokens}
    for name in about.sha256:
        if (found := (folder / name).stat().st_size) != sizes[name]:
            return f"{name} has {found} bytes, expected {sizes[name]}"
    ends = np.fromfile(folder / DOCUMENTS, "<i8").reshape(-1, 2)
    if why := check_documents(ends, about):
        return why
    highest = -1
    with (folder / TOKENS).open("rb") as file:
        while len(ids := np.fromfile(file, tokens, 2**20)):
            highest = max(highest, int(ids.max()))
    if highest > about.max_id:
        return f"it holds the id {highest}, its description says {about.max_id}"
    return None


def _append(
    lane: Lane,
    name: str,
    revision: str,
    part: tuple[int, str],
    sizes: Mapping[str, int],
    file: Any,
    arriving: Path,
) -> None:
    """Fetch one part, check it and put it at the end of its file."""
    size, sha256 = part
    if sizes.get(name, 0) != size or lane.fetch(name, revision, arriving) != sha256:
        raise Corrupt(f"{name} is not the part that {PARTS} names")
    file.write(arriving.read_bytes())
    file.flush()
    os.fsync(file.fileno())
    arriving.unlink()


def _read_parts(lane: Lane, name: str, size: int, revision: str) -> bytes:
    if size > MAX_PARTS:
        raise Corrupt(f"{name} has {size} bytes, at most {MAX_PARTS} describe a store")
    return lane.read(name, revision)


def _root(fingerprint: str) -> str:
    return f"tokens/{fingerprint}"


def _part_name(file: str, number: int, sha256: str) -> str:
    return f"{file}/{number:05}-{sha256[:16]}"


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


_SHA256 = plain.text(r"[0-9a-f]{64}", "64 lower-case hex digits")
_READERS: dict[str, plain.Reader[Any]] = {
    "store": read_about_of,
    "parts": _listed,
}
