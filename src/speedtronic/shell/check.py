"""What can be known about a run without training: ``validate`` and ``doctor`` ask.

Each question is one small function that gives lines, and one that fails does not hide
the others. Text is tokenised on the way; training uses the same token stores.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from speedtronic.errors import SpeedtronicError, UserError
from speedtronic.pure.config import Config
from speedtronic.pure.shapes import Advice, advice
from speedtronic.pure.tree import tree_map
from speedtronic.pure.types import Batch
from speedtronic.shell.check_loss import outputs, own_loss
from speedtronic.shell.data.base import Data
from speedtronic.shell.data.pipeline import open_data, prepare_all
from speedtronic.shell.data.recipe import ingredients
from speedtronic.shell.data.tokenizers import build_tokenizer
from speedtronic.shell.device import choose_arithmetic, choose_device
from speedtronic.shell.hooks import find_hooks
from speedtronic.shell.paths import run_folder, token_folder, why_not_writable
from speedtronic.shell.session import build_module, build_session


def check(config: Config) -> list[str]:
    """Every problem that can be found without training, one line each.

    Args:
        config: one that `load_config` accepted.
    """
    told = [*folders(config), *device(config)]
    told += problems_of("logging.hooks", lambda: find_hooks(config.logging.hooks))
    opened: list[Data] = []
    told += problems_of("data", lambda: opened.append(_open(config)))
    if not opened:
        return told + problems_of("model.name", lambda: build_module(config))
    (data,) = opened
    try:
        told += held_out(config, data)
        batch = data.train_batch(0).micro_batches[0]
        found = problems_of("model.name", lambda: build_session(config, batch))
        # A device that is missing was told above, in the same words.
        told += [line for line in found if line not in told]
        return told if found else told + model(config, data, batch)
    finally:
        data.close()


def model(config: Config, data: Data, batch: Batch) -> list[str]:
    """What is wrong with a model that runs."""
    module = build_module(config)[0]
    row = tree_map(lambda x: x[:1], batch)
    return [*token_ids(config, module, data, row), *own_loss(module, row)]


def problems_of(where: str, action: Callable[[], Any]) -> list[str]:
    """The lines of what ``action`` raises; none if it passes.

    An exception that is not ours comes from the user's code, or from a library that
    did not like what it was given; it is told with its kind.
    """
    try:
        action()
    except UserError as error:
        return error.problems
    except SpeedtronicError as error:
        return [str(error)]
    except Exception as error:
        text = " ".join(str(error).split()) or "no message"
        return [f"{where}: {type(error).__name__}: {text}"]
    return []


def folders(config: Config) -> Iterator[str]:
    """Whether everything that is written can be."""
    wanted = {
        "run.output_dir": run_folder(config),
        "data.cache_dir": token_folder(config),
    }
    if config.logging.file is not None:
        wanted["logging.file"] = Path(config.logging.file).parent
    if config.logging.json_file is not None:
        wanted["logging.json_file"] = Path(config.logging.json_file).parent
    told = {path: why for path, at in wanted.items() if (why := why_not_writable(at))}
    for path, why in told.items():
        yield f"{path}: {why}; choose another folder"


def device(config: Config) -> list[str]:
    """Whether the device is here and runs in the precision asked for."""

    def choose() -> None:
        choose_arithmetic(config.precision, choose_device(config.run.device))

    return problems_of("run.device", choose)


def shapes(config: Config) -> tuple[Advice, ...]:
    """Advice on shapes, for the device and precision that the config comes to.

    Raises:
        DeviceError: as `device` tells.
    """
    chosen = choose_device(config.run.device)
    precision = choose_arithmetic(config.precision, chosen).name
    return advice(config, chosen.type, precision)


def held_out(config: Config, data: Data) -> list[str]:
    """Whether there is something to evaluate on, if that was asked for."""
    if data.has_validation:
        # What cannot be read now cannot be read after the last step either.
        return problems_of("data", lambda: next(iter(data.validation_batches(1))))
    if config.evaluation.every_steps is None:
        return []
    return [
        "evaluation.every_steps: expected held-out data, found none "
        f"({'; '.join(data.notes) or 'the dataset brings none'}); set "
        "data.validation_path, or this to null"
    ]


def token_ids(config: Config, module: nn.Module, data: Data, batch: Batch) -> list[str]:
    """Whether the model takes the highest token id that the data holds."""
    highest = _highest_id(config)
    if highest is None or not isinstance(batch, Mapping):
        return []
    ids = batch["input_ids"]
    probe = {**batch, "input_ids": torch.full_like(ids, highest)}
    if not problems_of("", lambda: outputs(module, probe)):
        return []
    return [
        f"model.name: {config.model.name!r} fails for the token id {highest}, which "
        f"the data holds (vocabulary {data.vocab_size}); build it with a vocabulary "
        f"of at least {highest + 1}"
    ]


def _open(config: Config) -> Data:
    return open_data(config, directory=token_folder(config))


def _highest_id(config: Config) -> int | None:
    """The highest token id in the stores; None for data without stores."""
    tokenizer = build_tokenizer(config.data)
    found = ingredients(config.data, tokenizer)
    if not found or found[0].source is None:
        return None
    stores = prepare_all(config, found, tokenizer, token_folder(config)).stores
    return max(store.about.max_id for store in stores)
