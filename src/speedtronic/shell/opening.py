"""What every process of a run opens first: its data, and what to compute with.

Nothing is begun or deleted here, so that a mistake found now costs no run.
"""

from contextlib import ExitStack

import attrs
import torch

from speedtronic.errors import ModelError
from speedtronic.pure.config import Config
from speedtronic.pure.strict_json import to_json
from speedtronic.pure.tree import tree_map
from speedtronic.shell.check_loss import own_loss
from speedtronic.shell.checkpoint import versions
from speedtronic.shell.config import to_dict
from speedtronic.shell.data import Data, open_data
from speedtronic.shell.data.prepare import Progress
from speedtronic.shell.device import choose_iterations, machine
from speedtronic.shell.distributed.identity import data_share, node_name
from speedtronic.shell.micro_batch import settle
from speedtronic.shell.paths import token_folder
from speedtronic.shell.rank_place import Place
from speedtronic.shell.ranks import Ranks
from speedtronic.shell.session import Session, build_session


def open_session(
    stack: ExitStack,
    config: Config,
    device: torch.device,
    ranks: Ranks | None,
    preparing: Progress,
    kept_rows: int | None = None,
) -> tuple[Data, Session]:
    """Open the data and build the session of one process.

    Args:
        stack: closes them.
        config: of the run.
        device: of this process.
        ranks: the processes that share each step, if there are several.
        preparing: told how far the preparation of the data is.
        kept_rows: of the micro-batch that a run began with, where the config has
            ``auto``; the session's config has a number.

    Raises:
        ConfigError, DataError, DeviceError, ModelError: one line per mistake.
        RankError: the ranks do not compute the same.
    """
    place = Place() if ranks is None else ranks.place
    stack.enter_context(machine(config.run, device))

    def open_own(config: Config) -> Data:
        return open_data(
            config,
            directory=token_folder(config),
            rank=place.rank,
            ranks=place.ranks,
            progress=preparing,
            **data_share(config),
        )

    config, notes = settle(config, device, ranks, open_own, kept_rows)
    data = open_own(config)
    stack.callback(data.close)
    batch = data.train_batch(0).micro_batches[0]
    session = build_session(config, batch, device)
    session = attrs.evolve(session, notes=(*notes, *session.notes))
    if told := own_loss(session.module, tree_map(lambda x: x[:1], batch)):
        raise ModelError(told)
    if ranks is not None:
        ranks.agree("config", to_json(to_dict(config)))
        ranks.agree("data", data.fingerprint)
        own = str(choose_iterations(config.optimizer, device))
        ranks.agree("optimizer.muon_iteration_dtype", own)
        if config.distributed.enabled:  # its name decides what a node reads
            ranks.agree("distributed.node_id", node_name(config))
        ranks.agree("packages", to_json(_packages()))
    return data, session


def _packages() -> dict[str, str]:
    """What must be alike; processors may differ, as they may between nodes."""
    return {name: versions()[name] for name in ("speedtronic", "torch")}
