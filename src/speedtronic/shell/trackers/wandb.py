"""Weights & Biases: online if a key is configured, else offline in the run's folder.

Nothing is asked and nothing is sent unless the user has set up a key; an offline run
is sent later with ``wandb sync``. Only the numbers of the records and the config
without secrets are given to it: no console, code, git state, machine or command line.

W&B cannot take back a step, and its offline file loses what a killed process had not
flushed. So a resumed offline run is written anew from the run's own metrics file, in
place of the old files that were not yet sent; online, steps that W&B already has are
not sent again (a resumed run computes the same values).
"""

import logging
import netrc
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from speedtronic.pure.metrics import StepRecord, scalars
from speedtronic.shell.hooks import RunInfo
from speedtronic.shell.modes import make_folder
from speedtronic.shell.trackers.kept import run_id

logger = logging.getLogger(__name__)
NAME = "wandb"
HOSTS = ("api.wandb.ai", "api.forge.coreweave.com")  # of the public service


class Tracker:
    """A `Hook` that keeps one W&B run per node, grouped by run."""

    def __init__(self) -> None:
        self._run: Any = None
        self._exit_code = 1
        self._next = 0

    def on_start(self, info: RunInfo) -> None:
        """Open the run under its id, and fill in the history it does not have."""
        mode = choose_mode()
        if mode == "offline":
            # W&B's own error reports would go out even so; read when it is imported.
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        identity = run_id(info, NAME)
        make_folder(info.folder)
        if mode == "offline":
            _remove_unsent(info.folder / "wandb", identity)
        self._run = wandb.init(
            project=info.project,
            group=info.run,
            name=info.node,
            id=identity,
            resume="allow",
            mode=mode,
            dir=str(info.folder),
            config=dict(info.config),
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                save_code=False,
                x_disable_meta=True,
                x_disable_stats=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
            ),
        )
        self._next = self._run.starting_step
        for record in info.history(self._next - 1):
            self.on_record(record)

    def on_record(self, record: StepRecord) -> None:
        """Log the scalars of one step, unless W&B has that step."""
        if record.step >= self._next:
            self._run.log(scalars(record), step=record.step, commit=True)

    def on_end(self, summary: Mapping[str, Any], error: str | None) -> None:
        """Mark the run as finished or failed."""
        self._run.summary["status"] = summary.get("status")
        self._exit_code = 0 if error is None else 1

    def close(self) -> None:
        """Flush and close the run."""
        if self._run is not None:
            self._run.finish(exit_code=self._exit_code)


def choose_mode() -> Any:
    """The mode for ``wandb.init``: never one that would ask for a key.

    ``WANDB_MODE`` is followed where it can be; by default a run is online if a key is
    configured and its host answers, else offline: a run that could not be sent would
    hold up the end of the training until it is given up.
    """
    named = os.environ.get("WANDB_MODE", "")
    wanted = "offline" if named == "dryrun" else named
    if wanted in ("disabled", "offline"):
        return wanted
    if key_configured():
        if wanted or reachable():
            return wanted or "online"
        logger.warning(
            "%s does not answer; W&B stays offline, wandb sync sends the run later",
            urlsplit(_service()).hostname,
        )
        return "offline"
    if wanted:
        logger.warning("WANDB_MODE=%s needs a key; W&B stays offline", wanted)
    return "offline"


def reachable(timeout_s: float = 3.0) -> bool:
    """Whether the service's host takes a connection, or a proxy is to be asked."""
    address = urlsplit(_service())
    if getproxies().get(address.scheme) and not proxy_bypass(address.hostname or ""):
        return True
    port = address.port or {"http": 80}.get(address.scheme, 443)
    try:
        socket.create_connection((address.hostname, port), timeout_s).close()
    except OSError:
        return False
    return True


def _service() -> str:
    return os.environ.get("WANDB_BASE_URL") or f"https://{HOSTS[0]}"


def key_configured() -> bool:
    """Whether the environment or a netrc file holds a key for W&B."""
    if any(os.environ.get(x) for x in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")):
        return True
    own = urlsplit(os.environ.get("WANDB_BASE_URL", "")).netloc
    files = [os.environ.get("NETRC", ""), "~/.netrc", "~/_netrc"]
    for file in (Path(name).expanduser() for name in files if name):
        try:
            hosts = netrc.netrc(file).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        return bool(hosts.keys() & ({own} if own else set(HOSTS)))
    return False


def _remove_unsent(folder: Path, identity: str) -> None:
    """Remove offline files of this run that are written anew and were never sent."""
    for old in folder.glob(f"offline-run-*-{identity}"):
        if not any(old.glob("*.synced")):
            shutil.rmtree(old)
