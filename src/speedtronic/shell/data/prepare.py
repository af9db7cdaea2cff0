"""Turn a source into a token store, once, whoever asks first.

Stores live in a folder under a name that is a hash of the source's state (paths,
sizes, times), the rules and the tokenizer. A second process that wants the same
store waits for the first and uses its work. A process that was killed leaves what it
saved under a hidden name, and the next one goes on from there; a source that cannot
be used leaves nothing.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from speedtronic.errors import DataError
from speedtronic.shell.atomic import explained, sync_folder
from speedtronic.shell.data.source import Source
from speedtronic.shell.data.store import ABOUT, SCHEMA, Store
from speedtronic.shell.data.writer import StoreWriter, dtype_for
from speedtronic.shell.modes import make_folder, opener

SAVE_BYTES = 64 * 2**20  # read between two saves of the progress
Progress = Callable[[str, int, int], None]  # source, bytes done, and in all


def silent(source: str, done: int, total: int) -> None:
    """A progress report that nobody sees."""
    del source, done, total


def prepare_store(source: Source, cache: Path, progress: Progress = silent) -> Store:
    """The token store of ``source``, from the cache or made now.

    Raises:
        DataError: the source cannot be used; no store is left behind.
        StorageError: the store cannot be written.
    """
    key = _key(source)
    folder = cache / key
    if not (folder / ABOUT).exists():
        with explained(cache):
            make_folder(cache)
        with locked(cache / f".{key}.lock"):
            if not (folder / ABOUT).exists():
                _write(source, folder, cache / f".{key}.part", progress)
    return Store(folder, source.name)


def _key(source: Source) -> str:
    told = json.dumps([SCHEMA, source.identity()], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _write(source: Source, folder: Path, part: Path, progress: Progress) -> None:
    dtype = dtype_for(source.vocab_size)
    writer = StoreWriter(part, dtype, source.mark, source.masked)
    try:
        _append_all(source, writer, progress)
        source.check()
        if writer.tokens == 0:
            raise DataError(f"{source.name} holds no text")
        writer.finish(source.name)
    except DataError:
        shutil.rmtree(part)
        raise
    finally:
        writer.close()
    with explained(folder):
        os.rename(part, folder)
        sync_folder(folder.parent)


def _append_all(source: Source, writer: StoreWriter, progress: Progress) -> None:
    start, total = writer.progress, source.size()
    done = saved = start.read_bytes
    for part in range(start.part, source.parts()):
        place = start.place if part == start.part else 0
        for chunk in source.chunks(part, place):
            writer.append(chunk)
            done += chunk.read_bytes
            if chunk.last and done - saved >= SAVE_BYTES:
                writer.save(part, chunk.place, done)
                saved = done
            progress(source.name, min(done, total), total)
    if done < total:  # line ends and marks are no text
        progress(source.name, total, total)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that the end of the process releases, however it comes."""
    with explained(path):
        descriptor = opener(str(path), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
