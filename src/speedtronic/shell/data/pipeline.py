"""From a config to data: sources opened, stores prepared, ids checked, rows cut.

What is held out for validation: the file of ``data.validation_path``; else the second
dataset of a factory or the validation split of a dataset; else the last
``data.validation_fraction`` of each source's tokens. Of N tokens the first
``int(N * (1 - fraction))`` are for training and the others are held out, so the two
parts share no token. A source that would be left with less than one row, or with
fewer than two held-out tokens, is not divided, and `Data.notes` says so.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from speedtronic.errors import ConfigError, DataError
from speedtronic.pure.config import Config
from speedtronic.pure.data.position import Share, node_key, usable
from speedtronic.pure.random import fold_in, key_from_seed
from speedtronic.shell.data.base import Data
from speedtronic.shell.data.datasets import is_indexed
from speedtronic.shell.data.iterable_data import IterableData
from speedtronic.shell.data.prepare import Progress, prepare_store, silent
from speedtronic.shell.data.recipe import (
    Ingredient,
    check_fields,
    id_limit,
    ingredients,
    validation_ingredient,
)
from speedtronic.shell.data.row_order import Schedule
from speedtronic.shell.data.rows import BlockRows, DocumentRows, Rows, Tokens
from speedtronic.shell.data.sample_data import SampleData
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.synthetic import SyntheticNumbers
from speedtronic.shell.data.token_data import TokenData, fingerprint_of
from speedtronic.shell.data.tokenizers import (
    PythonTokenizer,
    Tokenizer,
    build_tokenizer,
)
from speedtronic.shell.data.travel import fetch_store
from speedtronic.shell.lanes import parse_lane

_ORDER = 0xDA7A  # separates the randomness of the data from that of the model
_SYNTHETIC = 0x57A7
_SYNTHETIC_VOCABULARY = 256


@attrs.frozen(kw_only=True)
class Prepared:
    """The token sources of a config, ready to be cut into rows."""

    train: list[Tokens]
    held_out: list[Tokens]
    weights: list[float]
    stores: list[Store]  # empty for the synthetic stream
    tokenizer: Tokenizer | None  # None if token files hold ids that it does not have
    vocab_size: int
    block: int
    fingerprint: str
    notes: list[str]


def open_data(
    config: Config,
    *,
    directory: Path,
    node: int | str = 0,
    nodes: int | None = 1,
    rank: int = 0,
    ranks: int = 1,
    progress: Progress = silent,
) -> Data:
    """Open the data that a config names, preparing its token stores first.

    Args:
        config: the whole config.
        directory: where token stores are kept, unless ``data.cache_dir`` says.
        node: number of this node; its name if ``nodes`` is None.
        nodes: how many nodes share each epoch; None if that is not known, and then
            each has a random order of its own.
        rank: number of this process in the node.
        ranks: processes of the node, which share each step.
        progress: told how far the preparation is.

    Raises:
        DataError: the data cannot be used.
        ConfigError: the config contradicts itself about the data.
        StorageError: a token store cannot be written.
    """
    check_fields(config)
    schedule = schedule_of(config, node, nodes, rank, ranks)
    tokenizer = build_tokenizer(config.data)
    found = ingredients(config.data, tokenizer)
    if found and found[0].samples is not None:
        return _sample_data(config, found[0], tokenizer, schedule)
    prepared = prepare_all(config, found, tokenizer, directory, progress)
    return token_data(prepared, cut_rows(config, prepared, schedule), schedule)


def token_data(
    prepared: Prepared, rows: Sequence[Rows], schedule: Schedule
) -> TokenData:
    """The data of token sources that are cut into rows."""
    return TokenData(
        rows,
        prepared.weights,
        prepared.held_out,
        tokenizer=prepared.tokenizer,
        vocab_size=prepared.vocab_size,
        block=prepared.block,
        schedule=schedule,
        fingerprint=prepared.fingerprint,
        notes=prepared.notes,
    )


def cut_rows(config: Config, prepared: Prepared, schedule: Schedule) -> list[Rows]:
    """Cut each source into rows.

    Raises:
        DataError: a source has too few tokens for this node and these steps.
    """
    rows = [
        _rows(config, tokens, prepared.block, number, schedule)
        for number, tokens in enumerate(prepared.train)
    ]
    for tokens, cut in zip(prepared.train, rows, strict=True):
        _check_share(tokens.name, cut.rows, schedule, single=len(rows) == 1)
    return rows


def prepare_all(
    config: Config,
    found: Sequence[Ingredient],
    tokenizer: Tokenizer,
    directory: Path,
    progress: Progress = silent,
) -> Prepared:
    """Prepare every token source of a config, check it and hold a part out.

    Raises:
        DataError: as `open_data`.
    """
    cache = Path(config.data.cache_dir or directory)
    block = config.data.block_size or config.model.max_seq_len
    limit = id_limit(config)
    if not found:
        return _synthetic(config, block, limit)
    stores = [_store(part, cache, progress) for part in found]
    named = validation_ingredient(config.data, tokenizer)
    apart = [named] if named else [f.validation for f in found if f.validation]
    held = [_store(part, cache, progress) for part in apart]
    for store in stores + held:
        _check_ids(store, limit, tokenizer)
    notes = _told(stores + held, tokenizer, limit)
    if config.data.num_workers and not isinstance(tokenizer, PythonTokenizer):
        notes.append("data.num_workers has no effect: token stores need no workers")
    fraction = 0.0 if held else config.data.validation_fraction
    divided = [_divide(store, fraction, block, notes) for store in stores]
    weights = [ingredient.weight for ingredient in found]
    prints = [store.about.fingerprint for store in stores + held]
    highest = max(store.about.max_id for store in stores + held)
    return Prepared(
        train=[train for train, _ in divided],
        held_out=[_whole(store) for store in held] + [t for _, t in divided if t],
        weights=weights,
        stores=stores + held,
        tokenizer=tokenizer if highest < tokenizer.vocab_size else None,
        vocab_size=max(tokenizer.vocab_size, highest + 1),
        block=block,
        fingerprint=fingerprint_of([prints, weights, fraction]),
        notes=notes,
    )


def schedule_of(
    config: Config,
    node: int | str = 0,
    nodes: int | None = 1,
    rank: int = 0,
    ranks: int = 1,
) -> Schedule:
    """How a rank of a node takes rows; the arguments are those of `open_data`.

    Raises:
        ConfigError: a step cannot be divided among the ranks.
    """
    data = config.data
    micro, step = data.micro_rows, data.target_batch_size
    if step % (micro * ranks):
        raise ConfigError(
            f"data.target_batch_size: expected a multiple of {micro * ranks} "
            f"(data.micro_batch_size {micro}, {ranks} ranks), found {step}"
        )
    seed = config.run.seed if data.seed is None else data.seed
    key = fold_in(key_from_seed(seed), _ORDER)
    if nodes is None:
        key, share = node_key(key, str(node)), Share()
    else:
        share = Share(node=int(node), nodes=nodes)
    return Schedule(
        key=key,
        share=share,
        rank=rank,
        ranks=ranks,
        micro_rows=micro,
        step_rows=step,
        shuffle=data.shuffle or nodes is None,
        drop_last=data.drop_last,
        repeat_after=data.max_steps,
    )


def _sample_data(
    config: Config, found: Ingredient, tokenizer: Tokenizer, schedule: Schedule
) -> Data:
    data, samples = config.data, found.samples
    if data.validation_path is not None:
        raise ConfigError(
            f"data.validation_path: {found.name} gives samples, which a file cannot "
            "validate; let the factory return two datasets"
        )
    held_out = found.validation.samples if found.validation else None
    told = getattr(samples, "fingerprint", None) or getattr(
        samples, "_fingerprint", None
    )
    notes = []
    size = len(samples) if is_indexed(samples) else None
    if told is None:
        notes.append(f"{found.name}: its content is not hashed, only named and counted")
    shared: dict[str, Any] = {
        "name": found.name,
        "schedule": schedule,
        "tokenizer": None if data.tokenizer == "bytes" else tokenizer,
        "vocab_size": data.vocab_size,
        "limit": id_limit(config),
        "fingerprint": fingerprint_of([found.name, data.kwargs, size, told]),
    }
    if size is None:
        ignored = {
            "shuffle": data.shuffle,
            "num_workers": data.num_workers,
            "max_steps": data.max_steps,
        }
        notes += [
            f"data.{name} has no effect on {found.name}, which is iterable"
            for name, value in ignored.items()
            if value
        ]
        return IterableData(samples, held_out, notes=tuple(notes), **shared)
    _check_share(found.name, size, schedule, single=True)
    return SampleData(
        samples,
        held_out,
        workers=data.num_workers,
        ahead=data.prefetch_factor or 2,
        notes=tuple(notes),
        **shared,
    )


def _rows(
    config: Config, tokens: Tokens, block: int, number: int, schedule: Schedule
) -> Rows:
    if config.data.order == "documents":
        key = schedule.source_key(number) if schedule.shuffle else None
        rows: Rows = DocumentRows(tokens, block, key)
        if rows.rows == 0:
            raise DataError(f"{tokens.name} has no document of two tokens or more")
        return rows
    rows = BlockRows(tokens, block, moving=config.data.order == "offset")
    if rows.rows == 0:
        raise DataError(
            f"{tokens.name} has {len(tokens)} tokens, block_size {block} needs "
            f"{block + 1}"
        )
    return rows


def _check_share(name: str, rows: int, schedule: Schedule, single: bool) -> None:
    """Refuse data of which this node would never get a row."""
    share = schedule.share.places(rows)
    if share == 0:
        raise DataError(f"{name} has {rows} rows for {schedule.share.nodes} nodes")
    drop_last = schedule.drop_last and single
    if usable(share, schedule.step_rows, drop_last) == 0:
        raise DataError(
            f"{name} has {share} rows per epoch, a step takes "
            f"{schedule.step_rows} (data.target_batch_size); lower it, or set "
            "data.drop_last: false"
        )


def _store(ingredient: Ingredient, cache: Path, progress: Progress) -> Store:
    """The token store of an ingredient: found, fetched or made."""
    if ingredient.source is not None:
        return prepare_store(ingredient.source, cache, progress)
    if ingredient.store is None:
        raise DataError(f"{ingredient.name} holds samples, expected text or tokens")
    lane, at, fingerprint = ingredient.store.rpartition("@")
    if at and not Path(ingredient.store).exists():
        return fetch_store(parse_lane(lane), fingerprint, cache, progress)
    return Store(Path(ingredient.store).expanduser())


def _divide(
    store: Store, fraction: float, block: int, notes: list[str]
) -> tuple[Tokens, Tokens | None]:
    """What to train on, and what is held out."""
    size = store.about.tokens
    cut = int(size * (1 - fraction))
    if cut < size and (cut < block + 1 or size - cut < 2):
        notes.append(
            f"{store.about.source}: {size} tokens are too few to hold "
            f"{fraction:g} of them out with block_size {block}; no validation"
        )
        cut = size
    held_out = store.part(cut, size) if cut < size else None
    return store.part(0, cut), held_out


def _whole(store: Store) -> Tokens:
    """All of a validation source."""
    size = store.about.tokens
    if size < 2:
        raise DataError(f"{store.about.source} has {size} tokens, validation needs 2")
    return store.part(0, size)


def _check_ids(
    store: Store, limit: tuple[str, int] | None, tokenizer: Tokenizer
) -> None:
    about = store.about
    if limit is not None and about.max_id >= limit[1]:
        name, size = limit
        raise DataError(
            f"{about.source}: id {about.max_id} at token {about.max_id_at} is beyond "
            f"{name} {size} (ids 0 to {size - 1}); the tokenizer has "
            f"{tokenizer.vocab_size} ids"
        )


def _told(
    stores: Sequence[Store], tokenizer: Tokenizer, limit: tuple[str, int] | None
) -> list[str]:
    notes = [
        f"{s.about.source}: {s.about.replaced} stretches that are not UTF-8 "
        "were replaced"
        for s in stores
        if s.about.replaced
    ]
    if limit is not None and tokenizer.vocab_size > limit[1]:
        notes.append(
            f"the tokenizer has {tokenizer.vocab_size} ids, {limit[0]} is {limit[1]}; "
            "this data has no id beyond it"
        )
    return notes


def _synthetic(config: Config, block: int, limit: tuple[str, int] | None) -> Prepared:
    """The made-up stream; its last part is held out like that of a text."""
    vocab_size = limit[1] if limit else _SYNTHETIC_VOCABULARY
    size, fraction = config.data.num_tokens, config.data.validation_fraction
    key = fold_in(key_from_seed(config.run.seed), _SYNTHETIC)
    whole = Tokens(
        name="the synthetic stream",
        ids=SyntheticNumbers(size, vocab_size, key),
        mask=None,
        ends=np.array([size]),
        first=0,
        stop=size,
    )
    cut = int(size * (1 - fraction))
    divided = block + 1 <= cut <= size - 2
    train = attrs.evolve(whole, stop=cut) if divided else whole
    return Prepared(
        train=[train],
        held_out=[attrs.evolve(whole, first=cut)] if divided else [],
        weights=[1.0],
        stores=[],
        tokenizer=None,
        vocab_size=vocab_size,
        block=block,
        fingerprint=fingerprint_of(["synthetic", size, vocab_size, fraction]),
        notes=["data: no source is named, so the tokens are made up"],
    )
