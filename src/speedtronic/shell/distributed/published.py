"""What a run publishes beside its rounds: the run file, and what Hub tools read.

``run.json`` holds what `speedtronic join` needs. ``config.json`` and the tokenizer's
files make the global model loadable by other tools, for the reference model as Llama.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import speedtronic
from speedtronic.errors import Corrupt
from speedtronic.pure.config import Config
from speedtronic.pure.config.fields import value_at
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.delta import Weights
from speedtronic.pure.rename import to_llama
from speedtronic.pure.round import names, run_file
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.run_file import RunFile, StoreAt
from speedtronic.shell.data.tokenizers import build_tokenizer
from speedtronic.shell.hub_files import hub_files
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.session import Session, hub_config

SETTINGS = (  # not agreed upon, but whoever joins had better begin with them
    "run.name",
    "run.max_steps",
    "run.max_minutes",
    "data.micro_batch_size",
    "data.target_batch_size",
    "evaluation.every_steps",
    "evaluation.max_batches",
    "checkpoint.every_steps",
    "checkpoint.every_minutes",
    "checkpoint.keep_last",
    "logging.every_steps",
    "distributed.inner_steps",
    "distributed.inner_seconds",
    "distributed.dynamic_steps",
    "distributed.wait",
    "distributed.carry",
    "distributed.poll_interval",
    "distributed.quorum",
    "distributed.grace",
    "distributed.lease",
    "distributed.keep_rounds",
)


def published_names(config: Config, likes: Weights) -> dict[str, str]:
    """The name of each tensor in the published file, where it is not its own."""
    if config.model.name not in REFERENCE_MODELS:
        return {}
    own = dict.fromkeys(likes.params)
    return dict(zip(own, to_llama(own), strict=True))


def run_files(
    config: Config,
    session: Session,
    recipe: Mapping[str, Any],
    stores: Sequence[StoreAt],
) -> Callable[[Manifest], dict[str, bytes]]:
    """What is committed together with the first round's files."""
    tokenizer = build_tokenizer(config.data)
    files, _ = hub_files(config, tokenizer, hub_config(session))
    run = RunFile(
        version=speedtronic.__version__,
        recipe=recipe,
        settings={path: value_at(config, path) for path in SETTINGS},
        init_from=config.model.init_from,
        stores=tuple(stores),
    )
    files[names.RUN] = run_file.encode(run)
    return lambda manifest: {} if manifest.serial else files


def read_run_file(lane: Lane, revision: str) -> RunFile | None:
    """The run file of a revision; None where there is none.

    Raises:
        LaneError: the lane does not answer, or what it holds is no run file.
    """
    size = lane.names(names.RUN, revision).get(names.RUN)
    if size is None:
        return None
    if size > run_file.MAX_RUN_BYTES:
        raise Corrupt(f"{names.RUN}: found {size} bytes, which is no run file")
    return run_file.parse(lane.read(names.RUN, revision))
