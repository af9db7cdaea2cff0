"""Write a model as a folder that Hub tools load.

The reference transformer goes out under Llama's names, so that
``AutoModelForCausalLM.from_pretrained(DIR)`` needs no code of ours. Any other model
keeps its own names and its own ``config.json``. The tokenizer goes along where it has
a file, and bytes get one that every reader of ``tokenizer.json`` understands.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from speedtronic.errors import RunError
from speedtronic.pure.config import Config
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.rename import llama_config, to_llama
from speedtronic.shell import blobs
from speedtronic.shell.atomic import create, new_folder
from speedtronic.shell.average import load_averaged_model
from speedtronic.shell.checkpoint import load_model
from speedtronic.shell.data.tokenizers import ByteTokenizer, Tokenizer, build_tokenizer
from speedtronic.shell.saved import find_saved

MARK = "<|endoftext|>"  # the text of a byte tokenizer's mark
_TOKENIZER = "tokenizer.json"
_BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


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
    reference = config.model.name in REFERENCE_MODELS
    mark = tokenizer.end_of_document
    told = []
    if reference:
        values = llama_config(config.model, end_of_document=mark)
        tensors = to_llama(tensors)
    else:
        values = dict(hub_config or {})
        told.append(
            f"{config.model.name!r} is not the reference transformer: its weights keep"
            " their own names, and loading them takes its own code"
        )
    texts = {
        "config.json": _json(values),
        "generation_config.json": _json({"eos_token_id": mark}),
    }
    files, left_out = _tokenizer_files(tokenizer, config)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(folder) as temporary:
        blobs.write(temporary / "model.safetensors", tensors)
        for name, data in {**texts, **files}.items():
            with create(temporary / name) as file:
                file.write(data)
    return (*told, *left_out)


def byte_tokenizer_json(mark: int | None) -> dict[str, Any]:
    """A ``tokenizer.json`` whose ids are the bytes of the text.

    It is byte-level BPE (Radford et al., 2019) without merges, in the library's format.

    Args:
        mark: 256 for a token of that id, `MARK`, after the bytes; a byte or None for
            none.

    >>> vocabulary = byte_tokenizer_json(None)["model"]["vocab"]
    >>> len(vocabulary), vocabulary["a"] == ord("a"), vocabulary["\u0120"]
    (256, True, 32)
    """
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    added = {
        "id": mark,
        "content": MARK,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added] if mark == 256 else [],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {letter: byte for byte, letter in enumerate(_letters())},
            "merges": [],
        },
    }


def _letters() -> list[str]:
    """The visible letter that stands for each byte in byte-level BPE."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return [chr(byte if byte in visible else next(hidden)) for byte in range(256)]


def _tokenizer_files(
    tokenizer: Tokenizer, config: Config
) -> tuple[dict[str, bytes], list[str]]:
    """File contents by name, and what is missing."""
    mark = tokenizer.end_of_document
    if isinstance(tokenizer, ByteTokenizer):
        if mark is not None and mark > 256:
            return {}, [f"no {_TOKENIZER}: ids between the bytes and the mark {mark}"]
        special = {"eos_token": MARK} if mark == 256 else {}
        return {
            _TOKENIZER: _json(byte_tokenizer_json(mark)),
            "tokenizer_config.json": _json(_loader(special)),
        }, []
    path = Path(config.data.tokenizer).expanduser()
    path = path / _TOKENIZER if path.is_dir() else path
    if not path.is_file():
        return {}, [f"no {_TOKENIZER}: {config.data.tokenizer!r} is not a file"]
    beside = {name: path.with_name(name) for name in _BESIDE}
    files = {name: at.read_bytes() for name, at in beside.items() if at.is_file()}
    files.setdefault("tokenizer_config.json", _json(_loader({})))
    return {_TOKENIZER: path.read_bytes(), **files}, []


def _loader(special: Mapping[str, str]) -> dict[str, Any]:
    """``tokenizer_config.json`` for a tokenizer that is all in its own file."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **special,
    }


def _json(value: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(value, indent=2)}\n".encode()
