"""Count up by compare-and-swap: ``increment.py LANE TIMES [SIZE]``.

A counter in one blob, and SIZE bytes made from it in another; both change together.
"""

import sys
from pathlib import Path

from speedtronic.errors import Conflict, Missing
from speedtronic.shell.lanes.directory import DirectoryLane


def main(root: Path, times: int, size: int) -> None:
    """Each increment is tried until it is the one that wins."""
    lane = DirectoryLane(root, keep=4)
    done = 0
    while done < times:
        head = lane.head()
        try:
            count = 1 + (int(lane.read("count", head)) if head else 0)
            adds = {"count": b"%d" % count, "mass": b"%d;" % count * size}
            lane.commit(adds, parent=head)
        except (Conflict, Missing):
            continue
        done += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
