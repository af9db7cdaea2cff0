"""Kill a committing process before each system call that it makes; check the lane.

Run as a program: ``kill_everywhere.py LANE``. It stays clear of torch and threads, so
that it can fork. Prints how many children were killed before one got through.
"""

import json
import os
import signal
import sys
from pathlib import Path

from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.directory import DirectoryLane

CALLS = ("open", "write", "fsync", "replace", "link", "unlink", "close", "listdir")


def killed_before(number: int) -> None:
    """Arm this process: its ``number``-th system call of a kind above is its end."""
    made = 0

    def armed(name: str) -> None:
        call = getattr(os, name)

        def guarded(*args: object, **kwargs: object) -> object:
            nonlocal made
            if made == number:
                os.kill(os.getpid(), signal.SIGKILL)
            made += 1
            return call(*args, **kwargs)

        setattr(os, name, guarded)

    for name in CALLS:
        armed(name)


def check(root: Path, number: int) -> None:
    """Every bit is right, both names agree, nothing piles up, and work goes on."""
    lane = DirectoryLane(root, keep=1)
    assert [] == lane.problems()
    head = lane.head()
    assert head is not None
    value = lane.read("b", head)
    assert value in (b"before", b"%d" % number), value
    assert lane.read("a", head) == value * 1000
    after = lane.commit({"a": b"before" * 1000, "b": b"before"}, parent=head)
    assert lane.head() == after
    assert lane.compact()
    left = [path for path in root.rglob("*") if path.is_file()]
    assert len(left) == 5, left  # lane.json, lock, one entry, two blobs
    lane.commit({"a": b"before" * 1000, "b": b"before"}, parent=after)


def main(root: Path) -> None:
    """Kill later and later until a child is not killed any more."""
    lane = DirectoryLane.create(root, keep=1)
    for _ in range(2):  # one more, and the log is due for compaction
        lane.commit({"a": b"before" * 1000, "b": b"before"}, parent=ANY)
    number = 0
    while True:
        child = os.fork()
        if child == 0:
            killed_before(number)
            value = b"%d" % number
            lane.commit({"a": value * 1000, "b": value}, parent=ANY)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        check(root, number)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        number += 1
    sys.stdout.write(json.dumps({"killed": number}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
