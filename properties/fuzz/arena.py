"""What a parser did beside giving its answer: files, programs, work and memory.

Work is counted in calls and memory in bytes, never in seconds, so that a loaded machine
changes nothing.
"""

import os
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import attrs

CALLS, CALLS_PER_BYTE = 40_000, 200
MEMORY_PER_BYTE = 200
_RUNS = ("os.exec", "os.fork", "os.posix_spawn", "os.system", "subprocess.Popen")
_CHANGES = (
    "os.link",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
)


@attrs.define
class _Watch:
    """What the audit hook of this process looks for; it cannot be removed again."""

    root: str | None = None  # looked at while it is set
    found: list[str] = attrs.field(factory=list)
    installed: bool = False

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.root is None:
            return
        if event.startswith((*_RUNS, "socket.connect", "pickle.find_class")):
            self.found.append(f"{event}{arguments}")
        elif event == "open" and isinstance(arguments[0], str | bytes):
            path, _, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and not self._inside(path):
                self.found.append(f"writes {path!r}")
        elif event.startswith(_CHANGES) and not all(
            self._inside(path)
            for path in arguments[:2]
            if isinstance(path, str | bytes)
        ):
            self.found.append(f"{event}{arguments}")

    def _inside(self, path: str | bytes) -> bool:
        if "/" not in os.fsdecode(path):  # below an open folder; links are not followed
            return True
        real = os.path.realpath(os.fsdecode(path))
        return real == "/dev/null" or real.startswith(f"{self.root}/")


_watch = _Watch()


class Arena:
    """A folder for what is parsed, in one with a canary that nobody may touch."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        self._canary = folder / "canary"
        self._canary.write_bytes(b"sings")
        self._above = folder
        if not _watch.installed:
            sys.addaudithook(_watch.hook)
            _watch.installed = True

    def check(self) -> None:
        """Fail if something happened outside of the root."""
        assert ["canary", "root"] == sorted(os.listdir(self._above))
        assert b"sings" == self._canary.read_bytes()
        assert [] == [p for p in self.root.rglob("*") if p.name == "pwned"]

    def run(self, parse: Callable[[], Any], size: int, memory: int | None) -> Any:
        """Call a parser and fail if it did more than its input allows.

        Args:
            parse: raises whatever it likes.
            size: bytes of the input.
            memory: bytes that it may take for any input; None counts nothing, as
                counting is slow.
        """
        _watch.root, _watch.found = os.path.realpath(self.root), []
        before, tempfile.tempdir = tempfile.tempdir, str(self.root)
        try:
            with nullcontext() if memory is None else bounded(size, memory):
                return parse()
        finally:
            _watch.root, tempfile.tempdir = None, before
            assert [] == _watch.found
            self.check()


@contextmanager
def bounded(size: int, memory: int) -> Iterator[None]:
    """Fail if the block takes more calls or memory than its input allows."""
    calls, most = 0, CALLS + CALLS_PER_BYTE * size

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls > 2 * most:
            sys.setprofile(None)
            raise AssertionError(f"more than {most} calls for {size} bytes")

    tracemalloc.start()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert calls <= most, f"{calls} calls for {size} bytes"
        assert peak <= memory + MEMORY_PER_BYTE * size, f"{peak} for {size} bytes"
