"""One attempt of a pretended run, in a process of its own, for the tracker tests.

    python attempt.py TRACKER FOLDER AFTER LAST [kill]

trains steps AFTER + 1 to LAST. With ``kill`` the process ends by SIGKILL right after
the last record, while the tracker may have delivered any part of them.
"""

import os
import signal
import sys
from pathlib import Path

from speedtronic.pure.config.base import Secret
from speedtronic.shell.hooks import RunInfo, build_hooks
from speedtronic.shell.metrics import resume_log, start_log
from speedtronic.testing.records import example_record


def main(tracker: str, folder: Path, after: int, last: int, kill: bool) -> None:
    path = folder / "metrics.jsonl"
    log = (
        resume_log(path, after, every=1, last_step=None)
        if after
        else start_log(path, every=1, last_step=None)
    )
    info = RunInfo(
        run="run-a",
        node="node-b",
        project="project-c",
        folder=folder,
        config={"optimizer": {"lr": 1e-3}, "token": Secret("very-secret-text")},
        resumed_from=after or None,
        history=log.history,
    )
    hooks = build_hooks([tracker], info)
    for step in range(after + 1, last + 1):
        loss = float("nan") if step == 4 else 10.0 * log.attempt + step
        record = example_record(step, attempt=log.attempt, loss=loss)
        log.write(record)
        hooks.record(record)
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)
    hooks.close({"status": "completed"}, timeout_s=60)
    log.close()


if __name__ == "__main__":
    main(
        sys.argv[1],
        Path(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
        "kill" in sys.argv[5:],
    )
