"""Several nodes of one run as processes on this machine, and one table of them.

Each node is a ``speedtronic train`` of its own, with a run folder, a log and an exit
code, so whatever holds here holds between machines. None is started again by itself: a
node that ends badly is told, and the others go on, as they would anywhere.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from speedtronic.pure.config import Config
from speedtronic.shell.distributed.report import FILE as REPORT
from speedtronic.shell.distributed.report import NodeReport, read_report
from speedtronic.shell.interrupt import Interrupt
from speedtronic.shell.metrics import recent_records
from speedtronic.shell.modes import make_folder, open_bytes
from speedtronic.shell.paths import METRICS, run_folder, token_folder

POLL_S = 0.25
LAST_BYTES = 1 << 14  # of a metrics file or a log, enough for its last lines


@attrs.frozen(kw_only=True)
class NodeStatus:
    """What is known of one node from outside."""

    node: str
    exit_code: int | None  # None while it runs
    step: int
    loss: float | None
    report: NodeReport | None


@attrs.frozen(kw_only=True)
class SwarmResult:
    """What became of all of them."""

    exit_code: int  # 0 if every node's is; 130 or 143 if a signal ended them
    nodes: tuple[NodeStatus, ...]
    problems: tuple[str, ...]  # one line for each node that ended badly


class Swarm:
    """The nodes of a run; `run` starts them and returns when all have ended.

    Args:
        config: of the run.
        config_path: the file that it came from, which the nodes read.
        overrides: what the command line says beside the file.
        nodes: how many, at least 1.
        arguments: further arguments of each ``train``.
    """

    def __init__(
        self,
        config: Config,
        config_path: Path,
        overrides: Sequence[str],
        nodes: int,
        arguments: Sequence[str] = (),
    ) -> None:
        self.config = config
        self.folder = run_folder(config)
        self.lane = config.distributed.lane or f"dir:{self.folder / 'lane'}"
        self.names = [f"node-{index}" for index in range(nodes)]
        self._config_path, self._overrides = config_path, list(overrides)
        self._arguments = list(arguments)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(
        self, interrupt: Interrupt, show: Callable[[Sequence[NodeStatus]], None]
    ) -> SwarmResult:
        """Start all nodes, show how they stand, and wait for them.

        Args:
            interrupt: a signal that it has seen is passed on to every node, once.
            show: called several times a second.
        """
        make_folder(self.folder)
        passed_on = False
        try:
            for name in self.names:
                self._processes[name] = self._start(name)
            while any(p.poll() is None for p in self._processes.values()):
                show(self.status())
                if interrupt and not passed_on:
                    passed_on = True
                    self._signal(signal.SIGTERM)
                time.sleep(POLL_S)
        finally:
            self._signal(signal.SIGKILL)  # only of nodes that are left by a failure
        found = self.status()
        show(found)
        problems = [self._problem(s) for s in found if self._failed(s, passed_on)]
        return SwarmResult(
            exit_code=1 if problems else interrupt.exit_code or 0,
            nodes=tuple(found),
            problems=tuple(problems),
        )

    def status(self) -> list[NodeStatus]:
        """How every node stands."""
        return [self._status(name) for name in self.names]

    def log_file(self, name: str) -> Path:
        """Where a node's own words go."""
        return self.folder / f"{name}.log"

    def overrides(self, name: str) -> list[str]:
        """What a node's command line says beside the config file."""
        others = [other for other in self.names if other != name]
        section = self.config.distributed
        own: dict[str, Any] = {
            "run.name": name,
            "run.output_dir": str(self.folder),
            "data.cache_dir": str(token_folder(self.config)),
            "distributed.enabled": "true",
            "distributed.role": "master" if name == self.names[0] else "auto",
            "distributed.node_id": name,
            "distributed.collaborators": json.dumps(others),
            "distributed.lane": self.lane,
            "distributed.repo_id": "null",
            "logging.file": "null",  # each writes into its own folder
            "logging.json_file": "null",
        }
        if section.lane is None:
            own["data.share"] = "false"  # all have the same folder of token stores
        if section.poll_interval is None and self.lane.startswith("dir:"):
            own["distributed.poll_interval"] = 0.1
        return [*self._overrides, *(f"{path}={value}" for path, value in own.items())]

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        arguments = [sys.executable, "-m", "speedtronic", "train"]
        arguments += ["--config", str(self._config_path), *self._arguments]
        for text in self.overrides(name):
            arguments += ["--set", text]
        threads = max(1, (os.cpu_count() or 1) // len(self.names))
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
        (self.folder / name / REPORT).unlink(missing_ok=True)  # of an earlier process
        with open_bytes(self.log_file(name), "ab") as log:
            return subprocess.Popen(
                arguments,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches them once, through us
            )

    def _signal(self, number: int) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(number)

    def _status(self, name: str) -> NodeStatus:
        process = self._processes.get(name)
        told = read_report(self.folder / name)
        records = recent_records(self.folder / name / METRICS) if told else []
        return NodeStatus(
            node=name,
            exit_code=None if process is None else process.poll(),
            step=records[-1].step if records else 0,
            loss=records[-1].loss if records else None,
            report=told,
        )

    def _failed(self, status: NodeStatus, interrupted: bool) -> bool:
        good = (0, 143) if interrupted else (0,)
        return status.exit_code not in good

    def _problem(self, status: NodeStatus) -> str:
        code = status.exit_code or 0
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        log = self.log_file(status.node)
        lines = _tail(log).decode(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return f"{status.node}: {how}, see {log}{last}"


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LAST_BYTES))
            return file.read()
    except OSError:
        return b""
