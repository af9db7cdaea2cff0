"""What is settled before a swarm starts, so that no node has to fail for it."""

import shutil
from pathlib import Path

from speedtronic.errors import ConfigError, LaneError, RunError
from speedtronic.shell.config import load_config
from speedtronic.shell.data import open_data
from speedtronic.shell.data.prepare import Progress
from speedtronic.shell.distributed.identity import data_share
from speedtronic.shell.distributed.lane import make_lane
from speedtronic.shell.distributed.membership import begins_signed
from speedtronic.shell.keys import key_file, load_or_create
from speedtronic.shell.modes import make_folder
from speedtronic.shell.paths import run_folder, token_folder
from speedtronic.shell.rundir import Mode, RunDirectory
from speedtronic.shell.swarm import Swarm


def make_ready(
    swarm: Swarm,
    config_path: Path,
    *,
    resume: bool,
    overwrite: bool,
    preparing: Progress,
) -> None:
    """Check every node's config and folder, prepare the data once, make the lane.

    Raises:
        ConfigError, DataError, RunError: what no node could start with.
    """
    mode: Mode = "overwrite" if overwrite else "auto" if resume else "new"
    for name in swarm.names:
        config = load_config(config_path, swarm.overrides(name))
        RunDirectory.check(run_folder(config), mode)
        share = data_share(config)
        # Each node's share is checked; the token stores are prepared by the first.
        open_data(
            config, directory=token_folder(config), progress=preparing, **share
        ).close()
        if config.distributed.key is not None:
            raise ConfigError(
                "distributed.key: a swarm's nodes have a key each; leave it out, or set"
                " SPEEDTRONIC_KEYS to a folder"
            )
        if begins_signed(config):  # all are of one user
            load_or_create(key_file(name, config.distributed.key))
    _make_lane(swarm, resume, overwrite)


def _make_lane(swarm: Swarm, resume: bool, overwrite: bool) -> None:
    own = swarm.config.distributed.lane is None
    folder = swarm.folder / "lane"
    if own and overwrite:
        shutil.rmtree(folder, ignore_errors=True)
    if own and folder.exists() and not resume:
        raise RunError(
            f"{folder} holds a run already: --resume continues it, --overwrite deletes"
            " it"
        )
    try:
        if own:
            make_folder(swarm.folder)
        make_lane(swarm.lane)
    except LaneError as error:
        raise RunError(f"{swarm.lane}: {error}") from error
