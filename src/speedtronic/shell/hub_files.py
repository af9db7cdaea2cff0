"""What lies beside a model's weights for Hub tools: its config and its tokenizer.

The reference transformer is described as a Llama, any other model by its own
``config.json``. The tokenizer goes along where it has a file, and bytes get one that
every reader of ``tokenizer.json`` understands.
"""

import json
from collections.abc import Mapping
from typing import Any

from speedtronic.pure.config import Config
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.rename import llama_config
from speedtronic.shell.data.tokenizers import ByteTokenizer, Tokenizer, tokenizer_file

MARK = "<|endoftext|>"  # the text of a byte tokenizer's mark
TOKENIZER = "tokenizer.json"
_BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


def hub_files(
    config: Config, tokenizer: Tokenizer, hub_config: Mapping[str, Any]
) -> tuple[dict[str, bytes], list[str]]:
    """File contents by name, and what is missing, one line each.

    Args:
        config: of the run.
        tokenizer: of the run.
        hub_config: ``config.json`` of a model that is not the reference transformer.
    """
    mark = tokenizer.end_of_document
    if config.model.name in REFERENCE_MODELS:
        hub_config = llama_config(config.model, end_of_document=mark)
    files, left_out = _tokenizer_files(tokenizer, config)
    texts = {
        "config.json": _json(hub_config),
        "generation_config.json": _json({"eos_token_id": mark}),
    }
    return {**texts, **files}, left_out


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
            return {}, [f"no {TOKENIZER}: ids between the bytes and the mark {mark}"]
        special = {"eos_token": MARK} if mark == 256 else {}
        return {
            TOKENIZER: _json(byte_tokenizer_json(mark)),
            "tokenizer_config.json": _json(_loader(special)),
        }, []
    path = tokenizer_file(config.data.tokenizer)
    if path is None or not path.is_file():
        return {}, [f"no {TOKENIZER}: {config.data.tokenizer!r} is not a file"]
    beside = {name: path.with_name(name) for name in _BESIDE}
    files = {name: at.read_bytes() for name, at in beside.items() if at.is_file()}
    files.setdefault("tokenizer_config.json", _json(_loader({})))
    return {TOKENIZER: path.read_bytes(), **files}, []


def _loader(special: Mapping[str, str]) -> dict[str, Any]:
    """``tokenizer_config.json`` for a tokenizer that is all in its own file."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **special,
    }


def _json(value: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(value, indent=2)}\n".encode()
