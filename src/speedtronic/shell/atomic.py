"""Files and folders that are there whole or not at all.

Everything is written under a temporary name in the folder where it will live, synced
to the disk, renamed, and the folder is synced. A temporary name is locked (`flock`) by
the process that writes it; a crash or a kill releases the lock, so `sweep` can tell
what a dead process left behind from what a live one is still writing, whatever its
process id and whatever the host's name.

What cannot be written raises `StorageError` with the path and the reason: disk full,
read-only, not permitted, too large for this process. Nothing is left behind.
Locks are those of Unix; Windows is not supported.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import attrs

from speedtronic.errors import Damaged, StorageError
from speedtronic.shell.modes import FOLDER, make_folder, opener

_LARGE = 1 << 16  # bytes, from here on a thread is worth its switch
_SYNC_EVERY = 1 << 26  # bytes; the disk begins before the last one is handed over
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than this process may write (ulimit -f)",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.ENOENT: "the folder does not exist",
    errno.ENOTEMPTY: "the name is taken",
    errno.EEXIST: "the name is taken",
    errno.EIO: "the device reports an input/output error",
}


@attrs.frozen
class Digest:
    """What a file's bytes must be."""

    sha256: str  # hexadecimal
    size: int  # bytes

    def expect(self, path: Path, found: "Digest") -> None:
        """Raise Damaged unless the bytes of ``path`` are these."""
        if found.size != self.size:
            raise Damaged(f"{path} has {found.size} bytes, expected {self.size}")
        if found.sha256 != self.sha256:
            raise Damaged(f"{path} has other bytes than were written (sha256 differs)")


class BackgroundHash:
    """A digest computed in a thread beside the reading or writing of the same bytes.

    Hashing takes longer than copying, and both let go of the interpreter. Small pieces
    are not worth the thread.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._size = 0
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None

    def update(self, view: memoryview) -> None:
        """Add bytes, in the order of the calls; they must stay until `settle`."""
        self._size += len(view)
        if len(view) >= _LARGE:
            self._last = self._thread.submit(self._hash.update, view)
        else:
            self.settle()
            self._hash.update(view)

    def settle(self) -> None:
        """Wait until all bytes so far are hashed."""
        if self._last is not None:
            self._last.result()
            self._last = None

    def digest(self) -> Digest:
        """The digest of everything; it ends the thread."""
        self.settle()
        self._thread.shutdown()
        return Digest(self._hash.hexdigest(), self._size)


class HashedFile:
    """A file open for writing that hashes what passes through it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._hash = BackgroundHash()
        self._thread = ThreadPoolExecutor(1)
        self._sync: Future[None] | None = None
        self._unsynced = 0

    def write(self, data: bytes | memoryview, *, steady: bool = False) -> None:
        """Write all of ``data``.

        Args:
            data: bytes.
            steady: they do not change until the digest is taken, so that hashing them
                may take longer than this call.
        """
        view = memoryview(data)
        self._hash.update(view)
        self._unsynced += len(view)
        while len(view):
            view = view[os.write(self._descriptor, view) :]
        if not steady:
            self._hash.settle()
        if self._unsynced >= _SYNC_EVERY and (self._sync is None or self._sync.done()):
            self._wait_for_sync()
            self._sync = self._thread.submit(os.fsync, self._descriptor)
            self._unsynced = 0

    def sync(self) -> None:
        """Put everything on the disk."""
        self._wait_for_sync()
        os.fsync(self._descriptor)

    def digest(self) -> Digest:
        """The digest of everything that was written; it ends the writing."""
        return self._hash.digest()

    def close(self) -> None:
        """Let go of the file."""
        self._thread.shutdown()  # before the descriptor's number means another file
        os.close(self._descriptor)

    def _wait_for_sync(self) -> None:
        # The system reports a failed write once, to whoever syncs first.
        if self._sync is not None:
            self._sync.result()
            self._sync = None


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an `OSError` into a `StorageError` that names path and reason."""
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        reason = _REASONS.get(code, error.strerror or str(error))
        raise StorageError(f"{path} cannot be written: {reason}") from error


@contextmanager
def create(path: Path) -> Iterator[HashedFile]:
    """Open a new file for writing and sync it to the disk at the end.

    The name must be free. The file is not atomic by itself: create it inside a
    `new_folder`, or use `write_bytes`.

    Raises:
        StorageError: it cannot be written.
    """
    with explained(path):
        file = HashedFile(opener(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        try:
            yield file
            file.sync()
        finally:
            file.close()


def write_bytes(path: Path, data: bytes) -> Digest:
    """Put ``data`` at ``path`` in one step, in place of what was there.

    Raises:
        StorageError: it cannot be written; what was there is untouched.
    """
    temporary = _temporary(path)
    with explained(path):
        file = HashedFile(_locked_file(temporary))
        try:
            file.write(data)
            file.sync()
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            file.close()
        sync_folder(path.parent)
    return file.digest()


REPLACED = ".replaced"  # ends the name of what is about to be replaced


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Fill a temporary folder that becomes ``path`` in one step at the end.

    The caller syncs the files (`create` does). ``path`` must not exist or be empty,
    unless it is to be replaced: then what is there is renamed and removed once the new
    folder has its place. A crash in between leaves it for `restore_replaced`.

    Raises:
        StorageError: it cannot be written; nothing is left behind.
    """
    temporary = _temporary(path)
    with explained(path):
        descriptor = _locked_folder(temporary)
        try:
            yield temporary
            os.fsync(descriptor)
            if replace and path.exists():
                os.rename(path, path.with_name(path.name + REPLACED))
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        finally:
            os.close(descriptor)
        sync_folder(path.parent)
        if replace:
            restore_replaced(path.parent)


def restore_replaced(folder: Path) -> None:
    """Put back what a crash left without its replacement; remove what was replaced.

    Raises:
        StorageError: it cannot be done.
    """
    with explained(folder):
        for old in sorted(folder.glob(f"*{REPLACED}")):
            if old.with_name(old.name.removesuffix(REPLACED)).exists():
                remove_folder(old)
            else:
                os.rename(old, old.with_name(old.name.removesuffix(REPLACED)))
        if folder.is_dir():
            sync_folder(folder)


def remove_folder(path: Path) -> None:
    """Remove a folder so that a crash never leaves half of it under its name."""
    temporary = _temporary(path)
    with explained(path):
        os.rename(path, temporary)
        shutil.rmtree(temporary)


def sweep(folder: Path) -> list[str]:
    """Remove the temporary files and folders of dead processes; return their names."""
    removed = []
    with explained(folder):
        for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
            if _is_temporary(entry.name) and _remove_if_dead(entry):
                removed.append(entry.name)
    return removed


def make_writable(folder: Path) -> None:
    """Make a folder with its parents, and find out whether files can go there.

    Raises:
        StorageError: they cannot.
    """
    with explained(folder):
        make_folder(folder)
    probe = _temporary(folder / "probe")
    try:
        with create(probe) as file:
            file.write(b"probe")
    finally:
        probe.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems have no such operation on folders.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _is_temporary(name: str) -> bool:
    stem, _, ending = name.rpartition(".")
    token = stem.rpartition(".")[2]
    hexadecimal = len(token) == 8 and set(token) <= set("0123456789abcdef")
    return ending == "tmp" and name.startswith(".") and hexadecimal


def _locked_file(path: Path) -> int:
    return _lock_new(path, lambda: opener(str(path), os.O_WRONLY | os.O_CREAT))


def _locked_folder(path: Path) -> int:
    def open_new() -> int:
        path.mkdir(FOLDER, exist_ok=True)
        return os.open(path, os.O_RDONLY)

    return _lock_new(path, open_new)


def _lock_new(path: Path, open_new: Callable[[], int]) -> int:
    """Open and lock; again if a sweep took the name before it was locked."""
    while True:
        descriptor = open_new()
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_if_dead(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False  # its owner just finished
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
    except (BlockingIOError, FileNotFoundError):
        return False  # its owner lives, or just finished
    finally:
        os.close(descriptor)
    return True
