"""Data section: sources, tokenizer, order, batches."""

from typing import Any

import attrs

from speedtronic.pure.config.base import (
    below_one,
    field,
    not_negative,
    one_of,
    positive,
    word_or,
)
from speedtronic.pure.micro_batch import first_size

FORMATS = ("auto", "text", "jsonl", "tokens", "dataset", "factory")
ORDERS = ("blocks", "offset", "documents")
TOKEN_DTYPES = ("uint8", "uint16", "uint32", "int32", "int64")


@attrs.frozen(kw_only=True)
class Source:
    """One weighted part of a mixture."""

    path: str | None = field(
        None, "file, glob, folder, or token store as in data.store", scope="node"
    )
    dataset: str | None = field(
        None, "Hugging Face dataset folder or name, or package.module:factory"
    )
    format: str = field("auto", "one of " + ", ".join(FORMATS), check=one_of(*FORMATS))
    weight: float = field(1.0, "share of the blocks drawn from it", check=positive)
    kwargs: dict[str, Any] = field(dict, "keyword arguments for the factory")


@attrs.frozen(kw_only=True)
class Data:
    """Text in, batches out; the batch of a step is a function of its number."""

    text_path: str | None = field(
        None, "text, JSONL or token file, a glob, or a folder", scope="node"
    )
    dataset: str | None = field(
        None, "Hugging Face dataset folder or name, or package.module:factory"
    )
    kwargs: dict[str, Any] = field(dict, "keyword arguments for the dataset factory")
    store: str | None = field(
        None, "a prepared token store: its folder, or LANE@FINGERPRINT", scope="node"
    )
    sources: tuple[Source, ...] = field((), "a mixture: several weighted sources")
    format: str = field("auto", "one of " + ", ".join(FORMATS), check=one_of(*FORMATS))
    synthetic: bool = field(True, "make up tokens when there is no source")
    num_tokens: int = field(100000, "tokens of the synthetic stream", check=positive)
    text_field: str = field("text", "field of a JSONL record that holds the text")
    prompt_field: str | None = field(
        None, "field of a JSONL record that is read but not learned"
    )
    completion_field: str | None = field(
        None, "field of a JSONL record that is learned, after the prompt"
    )
    document_separator: str | None = field(
        None, "text between documents of a text file (default: a file is a document)"
    )
    encoding_errors: str = field(
        "strict",
        "strict, or replace (counted and said)",
        check=one_of("strict", "replace"),
    )
    newlines: str = field(
        "keep", "keep, or lf (CRLF and CR become LF)", check=one_of("keep", "lf")
    )
    tokenizer: str = field(
        "bytes", "bytes, a tokenizer.json, or package.module:factory"
    )
    tokenizer_kwargs: dict[str, Any] = field(dict, "arguments for its factory")
    end_of_document: str = field(
        "auto",
        "mark after each document: auto (the tokenizer's own), none, a token, an id",
    )
    special_tokens_in_text: bool = field(
        False, "let text that looks like a special token become one"
    )
    token_dtype: str = field(
        "uint16", "number format of .bin token files", check=one_of(*TOKEN_DTYPES)
    )
    vocab_size: int | None = field(
        None, "ids the data may hold (default: model.vocab_size)", check=positive
    )
    block_size: int | None = field(
        None, "tokens per row (default: model.max_seq_len)", check=positive
    )
    micro_batch_size: int | str = field(
        1,
        "rows that go through the model at once; auto: as many as fit",
        scope="node",
        check=word_or(positive, "auto"),
    )
    target_batch_size: int = field(
        1, "rows per step; a multiple of the micro-batch", scope="node", check=positive
    )
    num_workers: int = field(
        0,
        "processes that load a PyTorch dataset or run a Python tokenizer",
        scope="node",
        check=not_negative,
    )
    prefetch_factor: int | None = field(
        None, "steps prepared ahead (default: 2)", scope="node", check=positive
    )
    pin_memory: bool | None = field(
        None, "page-locked batches (default: on CUDA)", scope="node"
    )
    shuffle: bool = field(False, "visit blocks in a keyed random order")
    order: str = field(
        "offset",
        "blocks, offset or documents: how text is cut into rows",
        check=one_of(*ORDERS),
    )
    drop_last: bool = field(True, "leave out a last batch that is not full")
    seed: int | None = field(
        None, "seed of the data order (default: run.seed)", check=not_negative
    )
    max_steps: int | None = field(
        None, "steps of data before it starts again", check=positive
    )
    validation_path: str | None = field(
        None,
        "held-out text, or a token store (default: the end of the training text)",
        scope="node",
    )
    validation_fraction: float = field(
        0.1,
        "share of the training text that is held out, from its end",
        check=below_one,
    )
    cache_dir: str | None = field(
        None,
        "folder for prepared token stores (default: beside the runs)",
        scope="node",
    )
    share: bool = field(
        True,
        "as the one who begins a run, put its token stores on the lane, for join",
        scope="node",
    )

    @property
    def micro_rows(self) -> int:
        """The micro-batch as a number; of ``auto``, before it is known, a small one."""
        if isinstance(self.micro_batch_size, str):
            return first_size(self.target_batch_size)
        return self.micro_batch_size
