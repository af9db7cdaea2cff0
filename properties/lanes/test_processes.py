"""Real processes on one directory lane: nothing is lost, nothing is half there."""

import random
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from speedtronic.errors import Missing
from speedtronic.shell.lanes.directory import DirectoryLane

PROGRAM = Path(__file__).with_name("increment.py")
FOREVER = 10**9
SIZE = 20_000


def start(root: Path, times: int, size: int) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PROGRAM), str(root), str(times), str(size)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def count_of(lane: DirectoryLane) -> int:
    """The counter, after a check that both blobs agree."""
    head = lane.head()
    if head is None:
        return 0
    count = int(lane.read("count", head))
    assert b"%d;" % count * (
        lane.names("mass", head)["mass"] // len(b"%d;" % count)
    ) == (lane.read("mass", head))
    return count


def seen(lane: DirectoryLane) -> int:
    """The counter while others count on; a revision may be gone before it is read."""
    while True:
        with suppress(Missing):
            return count_of(lane)


def test_two_processes_lose_no_increment(tmp_path: Path) -> None:
    """Compare-and-swap holds between processes, compactions included."""
    lane = DirectoryLane.create(tmp_path / "lane", keep=4)
    with ExitStack() as stack:
        children = [
            stack.enter_context(start(tmp_path / "lane", 150, 1)) for _ in range(2)
        ]
    for child in children:
        assert 0 == child.returncode, child.stderr
    assert 300 == count_of(lane)
    assert [] == lane.problems()


def test_kills_at_random_leave_a_whole_lane(tmp_path: Path) -> None:
    """SIGKILL at any moment: what is there verifies, counts on, and stays small."""
    draw = random.Random(1)
    root = tmp_path / "lane"
    lane = DirectoryLane.create(root, keep=4)
    before = 0
    for _ in range(10):
        children = [start(root, FOREVER, SIZE) for _ in range(2)]
        target = before + draw.randrange(1, 40)
        while seen(lane) < target:  # so that the kill comes in the midst of work
            assert [None, None] == [child.poll() for child in children]
        for child in children:
            child.kill()
        for child in children:
            child.communicate()
        assert [] == lane.problems()
        assert count_of(lane) >= target
        before = count_of(lane)
    assert lane.compact()
    assert 2 + 4 + 4 * 2 == sum(path.is_file() for path in root.rglob("*"))
