"""Files below a root, opened so that no link can lead out of it.

Every path is opened one component at a time relative to the folder above, and never
through a symbolic link; anything that is no regular file is refused. What the system
reports becomes a typed failure of the lane, in words.
"""

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from speedtronic.errors import Denied, Unavailable
from speedtronic.shell.modes import FILE

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTSUP, errno.ENOSYS}
_LINKED = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}
_LOCK_TRIES = 1000
_LOCK_WAIT_S = 0.01


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn an OSError into Denied, where only a person can help, or Unavailable."""
    try:
        yield
    except OSError as error:
        told = f"{where}: {error.strerror or error}"
        if error.errno in _LINKED:
            raise Denied(f"{told}; symbolic links are not followed") from error
        if error.errno in _DENIED:
            raise Denied(told) from error
        raise Unavailable(told) from error


class Folder:
    """An open folder below the root; names are single components."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def names(self) -> list[str]:
        """What is in the folder, in no order."""
        return os.listdir(self.descriptor)

    @contextmanager
    def reading(self, name: str) -> Iterator[int]:
        """The descriptor of a regular file, open for reading.

        Raises:
            FileNotFoundError: there is none.
            OSError: it is a link, no regular file, or cannot be opened.
        """
        descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=self.descriptor)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.ELOOP, "not a regular file")
            yield descriptor
        finally:
            os.close(descriptor)

    def write(self, name: str, blocks: Iterator[bytes | memoryview]) -> None:
        """Write a new file, synced; nothing is left of it after an error."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        descriptor = os.open(name, flags, FILE, dir_fd=self.descriptor)
        try:
            for block in blocks:
                view = memoryview(block)
                while len(view):
                    view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except BaseException:
            self.remove(name)
            raise
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            pass

    def move(self, name: str, to: "Folder", new: str) -> None:
        """Rename into another folder, in place of what was there."""
        os.replace(name, new, src_dir_fd=self.descriptor, dst_dir_fd=to.descriptor)

    def link(self, name: str, to: "Folder", new: str) -> bool:
        """Create ``new`` whole, exclusively: False if that name is taken."""
        try:
            os.link(
                name,
                new,
                src_dir_fd=self.descriptor,
                dst_dir_fd=to.descriptor,
                follow_symlinks=False,
            )
        except FileExistsError:
            return False
        return True

    def sync(self) -> None:
        """Make the names in the folder survive a power failure."""
        os.fsync(self.descriptor)


def token() -> str:
    """A name that nobody else makes up."""
    return secrets.token_hex(16)


@contextmanager
def opened(root: Path, *names: str) -> Iterator[list[Folder]]:
    """Folders directly below ``root``.

    Raises:
        OSError: one of them is not there, or is a link.
    """
    with ExitStack() as stack:

        def enter(name: str | Path, above: int | None) -> int:
            descriptor = os.open(name, _FOLDER, dir_fd=above)
            stack.callback(os.close, descriptor)
            return descriptor

        top = enter(root, None)
        yield [Folder(enter(name, top)) for name in names]


@contextmanager
def locked(folder: Folder, name: str, *, alone: bool, wait: bool) -> Iterator[bool]:
    """Hold the lock file ``name``, shared or alone, for the length of the block.

    Yields:
        Whether the lock is held; without ``wait`` it may not be.

    Raises:
        Unavailable: it was held by others for ten seconds.

    The lock ends with the process that holds it, however that ends.
    """
    descriptor = os.open(name, os.O_RDWR | _FILE, dir_fd=folder.descriptor)
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    tries = _LOCK_TRIES if wait else 1
    try:
        held = _try(lambda: fcntl.flock(descriptor, kind | fcntl.LOCK_NB), tries)
        if wait and not held:
            raise Unavailable(f"the lock {name!r} stayed taken; is a process stopped?")
        yield held
    finally:
        # Said aloud, because a process forked meanwhile holds the descriptor too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _try(take: Callable[[], None], tries: int) -> bool:
    for left in reversed(range(tries)):
        try:
            take()
        except BlockingIOError:
            if left:
                time.sleep(_LOCK_WAIT_S)
        else:
            return True
    return False
