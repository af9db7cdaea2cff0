"""``python -m speedtronic`` and the console script ``speedtronic``."""

import os
import sys
from collections.abc import Sequence

from speedtronic.shell.cli import main as run_command_line


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default the process's own; returns the exit code."""
    # Other libraries write into a run's folder, too. What this program makes itself is
    # nobody else's to write to whatever the umask is; see speedtronic.shell.modes.
    os.umask(os.umask(0o077) | 0o022)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as a daemon may have it
            setattr(sys, name, open(os.devnull, "w"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # text may hold what a terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    return run_command_line(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
