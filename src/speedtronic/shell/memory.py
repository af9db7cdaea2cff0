"""How much memory the processor has left, and how much this process took at most."""

import os
import resource
import sys
from pathlib import Path

_PROC = Path("/proc")
_GROUP = Path("/sys/fs/cgroup")


def available_bytes(proc: Path = _PROC, group: Path = _GROUP) -> int:
    """What can be taken without anything being swapped out or killed, roughly.

    The bound of a container counts as the machine's. Where nothing is known, as on
    macOS, it is half of what the machine has.

    >>> available_bytes() > 0
    True
    """
    machine = _kibibytes(proc / "meminfo", "MemAvailable")
    if machine is None:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    bound = _number(group / "memory.max")
    used = _number(group / "memory.current")
    if bound is None or used is None:
        return machine
    # Pages of files that nobody looked at lately go when memory is wanted.
    spare = _number(group / "memory.stat", "inactive_file") or 0
    return max(0, min(machine, bound - used + spare))


def forget_peak(proc: Path = _PROC) -> None:
    """Let `peak_bytes` count from now on, where the system can do that."""
    try:
        (proc / "self/clear_refs").write_text("5")
    except OSError:
        return


def peak_bytes(proc: Path = _PROC) -> int:
    """The largest resident set since `forget_peak`, or since the process began."""
    found = _kibibytes(proc / "self/status", "VmHWM")
    if found is not None:
        return found
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _kibibytes(file: Path, name: str) -> int | None:
    found = _number(file, f"{name}:")
    return None if found is None else 1024 * found


def _number(file: Path, name: str = "") -> int | None:
    """The number after a name, or alone in a file; None if there is none."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return None
    for line in lines:
        words = line if not name else line[1:] if line[:1] == [name] else []
        if words and words[0].isdigit():
            return int(words[0])
    return None
