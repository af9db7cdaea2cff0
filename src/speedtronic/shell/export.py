"""Write a model as a folder that Hub tools load.

The reference transformer goes out under Llama's names, so that
``AutoModelForCausalLM.from_pretrained(DIR)`` needs no code of ours. Any other model
keeps its own names and its own ``config.json``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from speedtronic.errors import RunError
from speedtronic.pure.config import Config
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.rename import to_llama
from speedtronic.shell import blobs
from speedtronic.shell.atomic import create, new_folder
from speedtronic.shell.average import load_averaged_model
from speedtronic.shell.checkpoint import load_model
from speedtronic.shell.data.tokenizers import Tokenizer, build_tokenizer
from speedtronic.shell.hub_files import hub_files
from speedtronic.shell.modes import make_folder
from speedtronic.shell.saved import find_saved


def export_run(run: Path, folder: Path, *, average: bool = False) -> tuple[str, ...]:
    """Export the newest checkpoint of a run, or the checkpoint that ``run`` is.

    Args:
        run: a run folder, or a checkpoint in one.
        folder: missing or empty.
        average: export the averaged weights and not the raw ones.

    Raises:
        RunError, CheckpointError, StorageError: see `find_saved` and `export`.
    """
    saved = find_saved(run)
    read = load_averaged_model if average else load_model
    tensors, hub_config = read(saved.path)
    tokenizer = build_tokenizer(saved.config.data)
    told = export(tensors, saved.config, tokenizer, folder, hub_config=hub_config)
    return (*saved.notes, f"{saved.path} exported to {folder}", *told)


def export(
    tensors: Mapping[str, Tensor],
    config: Config,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    hub_config: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Write weights, config and tokenizer; all of it or nothing.

    Args:
        tensors: parameters and saved buffers by name, tied ones once.
        config: of the run.
        tokenizer: of the run.
        folder: missing or empty.
        hub_config: ``config.json`` of a model that is not the reference transformer.

    Returns:
        What the user should know, one line each.

    Raises:
        RunError: the folder is not empty.
        StorageError: it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not an empty folder; export to another one")
    told = []
    if config.model.name in REFERENCE_MODELS:
        tensors = to_llama(tensors)
    else:
        told.append(
            f"{config.model.name!r} is not the reference transformer: its weights keep"
            " their own names, and loading them takes its own code"
        )
    files, left_out = hub_files(config, tokenizer, hub_config or {})
    make_folder(folder.parent)
    with new_folder(folder) as temporary:
        blobs.write(temporary / "model.safetensors", tensors)
        for name, data in files.items():
            with create(temporary / name) as file:
                file.write(data)
    return (*told, *left_out)
