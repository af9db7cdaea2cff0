"""What a run publishes beside its rounds: the run file, and what Hub tools read.

``run.json`` holds what `speedtronic join` needs. ``config.json`` and the tokenizer's
files make the global model loadable by other tools, for the reference model as Llama.
``README.md`` is its card, written anew with every round; the others never change.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import speedtronic
from speedtronic.errors import Corrupt
from speedtronic.pure.card import About, Facts, Point, card, counted, recalled
from speedtronic.pure.config import Config
from speedtronic.pure.config.fields import value_at
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.delta import Weights
from speedtronic.pure.rename import to_llama
from speedtronic.pure.round import names, run_file
from speedtronic.pure.round.run_file import RunFile, StoreAt
from speedtronic.shell.data.tokenizers import build_tokenizer
from speedtronic.shell.distributed.lane import lane_name
from speedtronic.shell.distributed.leader import Beside, Made
from speedtronic.shell.hub_files import hub_files
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.metrics import recent_records
from speedtronic.shell.paths import metrics_file
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

_LOADING = """\
The weights have Llama's names, so that transformers needs no other code:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{0}")
tokenizer = AutoTokenizer.from_pretrained("{0}")
```"""
_OWN = """\
The weights have the names of their own model, which is not part of this repository.
Where it can be imported, a config of Speedtronic begins with them by
`model.init_from: {0}`."""
_FROZEN = """\
The file holds the parameters that are trained. The frozen ones are those that the run
began with, and are not part of this repository, so the model cannot be loaded from it
alone."""


def published_names(config: Config, likes: Weights) -> dict[str, str]:
    """The name of each tensor in the published file, where it is not its own."""
    if config.model.name not in REFERENCE_MODELS:
        return {}
    own = dict.fromkeys(likes.params)
    return dict(zip(own, to_llama(own), strict=True))


def beside(
    config: Config,
    session: Session,
    recipe: Mapping[str, Any],
    stores: Sequence[StoreAt],
) -> Beside:
    """What is committed together with the files of a round; nothing here asks a lane.

    Args:
        config: of the leader.
        session: of the leader.
        recipe: of the run.
        stores: token stores that whoever joins can fetch.
    """
    tokenizer = build_tokenizer(config.data)
    files, _ = hub_files(config, tokenizer, hub_config(session))
    run = RunFile(
        version=speedtronic.__version__,
        recipe=recipe,
        settings={path: value_at(config, path) for path in SETTINGS},
        # Without frozen parameters nobody needs it, and it may be a path of this node.
        init_from=config.model.init_from if recipe.get("frozen") else None,
        stores=tuple(stores),
    )
    files[names.RUN] = run_file.encode(run)
    about = about_model(config, session)

    def of_round(made: Made) -> dict[str, bytes]:
        manifest = made.manifest
        facts = Facts()
        if manifest.round:
            facts = recalled(made.card, manifest.round - 1)
            point = newest_point(config, manifest.round)
            facts = counted(facts, manifest.round, made.headers, point)
        page = {names.README: card(about, manifest, facts).encode()}
        return page if manifest.serial else {**files, **page}

    return of_round


def newest_point(config: Config, round: int) -> Point:
    """The losses that this node logged last."""
    records = recent_records(metrics_file(config))
    known = [r.validation_loss for r in records if r.validation_loss is not None]
    return Point(
        round,
        loss=records[-1].loss if records else None,
        validation_loss=known[-1] if known else None,
    )


def about_model(config: Config, session: Session) -> About:
    """What the card says of the model, which does not change."""
    place = lane_name(config.distributed) or ""
    kind, _, repository = place.partition(":")
    library = "transformers" if config.model.name in REFERENCE_MODELS else None
    loading = _OWN.format(place)
    if library is not None:
        loading = _LOADING.format(repository if kind == "hub" else "FOLDER")
    if session.initial.frozen:  # what is missing would be made up without a word
        library, loading = None, _FROZEN
    return About(
        title=config.run.name,
        version=speedtronic.__version__,
        parameters=sum(x.numel() for x in session.initial.params.values()),
        loading=loading,
        library=library,
        license=config.model.license,
    )


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
