"""What a run publishes beside its rounds: the recipe, and what Hub tools read.

``run.json`` holds everything that all nodes agree on. ``config.json`` makes the global
model loadable by other tools, for the reference model as Llama.
"""

from collections.abc import Callable, Mapping
from typing import Any

from speedtronic.pure.config import Config
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.delta import Weights
from speedtronic.pure.rename import llama_config, to_llama
from speedtronic.pure.round import names, plain
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.strict_json import to_json
from speedtronic.shell.session import Session, hub_config


def published_names(config: Config, likes: Weights) -> dict[str, str]:
    """The name of each tensor in the published file, where it is not its own."""
    if config.model.name not in REFERENCE_MODELS:
        return {}
    own = dict.fromkeys(likes.params)
    return dict(zip(own, to_llama(own), strict=True))


def run_files(
    config: Config, session: Session, recipe: Mapping[str, Any]
) -> Callable[[Manifest], dict[str, bytes]]:
    """What is committed together with the first round's files."""
    reference = config.model.name in REFERENCE_MODELS
    hub = llama_config(config.model) if reference else hub_config(session)
    run = {"schema": 1, "recipe": dict(recipe)}
    files = {
        names.RUN: plain.encode(run),
        names.CONFIG: f"{to_json(hub)}\n".encode(),
    }
    return lambda manifest: {} if manifest.serial else files
