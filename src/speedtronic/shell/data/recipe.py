"""What a config names as data, opened: token sources, or a dataset of samples."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import ConfigError, DataError
from speedtronic.pure.config import Config, Data
from speedtronic.pure.config.checks import is_factory, problems
from speedtronic.shell.data.datasets import open_dataset
from speedtronic.shell.data.documents import TextFiles, TextRecords
from speedtronic.shell.data.files import find_files, kind_of
from speedtronic.shell.data.source import Source, TextSource
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.token_files import TokenFiles
from speedtronic.shell.data.tokenizers import Tokenizer
from speedtronic.shell.data.travel import is_store


@attrs.frozen(kw_only=True)
class Ingredient:
    """One named source: tokens to prepare, a store that is, or samples as they are.

    ``validation`` is what came with it to be held out, if anything did.
    """

    name: str
    weight: float = 1.0
    source: Source | None = None
    store: str | None = None
    samples: Any = None
    validation: "Ingredient | None" = None


def ingredients(data: Data, tokenizer: Tokenizer) -> list[Ingredient]:
    """Everything to train on; an empty list means the synthetic stream.

    Prompts that no source has are refused, so that they are not learned unnoticed.

    Args:
        data: a section that `check_fields` accepted.
        tokenizer: for texts.

    Raises:
        DataError: a source cannot be used.
        ConfigError: a factory cannot be found, a format does not fit, or no source
            has fields for prompts.
    """
    if data.store is not None:
        return [Ingredient(name=data.store, store=data.store)]
    found = _named(data, tokenizer)
    masked = any(part.store or (part.source and part.source.masked) for part in found)
    if data.prompt_field is not None and not masked:
        raise ConfigError(
            f"data.prompt_field: expected JSON lines or records with a field "
            f"{data.prompt_field!r}, found none in "
            f"{', '.join(part.name for part in found) or 'the synthetic stream'}"
        )
    return found


def _named(data: Data, tokenizer: Tokenizer) -> list[Ingredient]:
    if data.text_path is not None:
        return [_from_path(data.text_path, data.format, 1.0, data, tokenizer)]
    if data.dataset is not None:
        form, kwargs = data.format, data.kwargs
        return [_from_dataset(data.dataset, form, kwargs, 1.0, data, tokenizer)]
    return [_mixed(number, data, tokenizer) for number in range(len(data.sources))]


def validation_ingredient(data: Data, tokenizer: Tokenizer) -> Ingredient | None:
    """The source of ``data.validation_path``, if there is one."""
    if data.validation_path is None:
        return None
    form = "auto" if data.text_path is None else data.format
    return _from_path(data.validation_path, form, 1.0, data, tokenizer)


def check_fields(config: Config) -> None:
    """Refuse a config whose fields contradict each other about the data.

    Raises:
        ConfigError: with all of its contradictions.
    """
    told = [line for line in problems(config) if line.startswith("data.")]
    if told:
        raise ConfigError(told)


def id_limit(config: Config) -> tuple[str, int] | None:
    """Which field bounds token ids, and at what number; None if none does."""
    limits = []
    if config.data.vocab_size is not None:
        limits.append((config.data.vocab_size, "data.vocab_size"))
    if not is_factory(config.model.name):
        limits.append((config.model.vocab_size, "model.vocab_size"))
    if not limits:
        return None
    size, name = min(limits)
    return name, size


def _mixed(number: int, data: Data, tokenizer: Tokenizer) -> Ingredient:
    part, where = data.sources[number], f"data.sources[{number}]"
    if part.path is not None:
        return _from_path(part.path, part.format, part.weight, data, tokenizer)
    name = part.dataset or ""
    form, kwargs, weight = part.format, part.kwargs, part.weight
    found = _from_dataset(name, form, kwargs, weight, data, tokenizer)
    if found.samples is not None:
        raise DataError(
            f"{where}: {name} holds samples; a mixture takes texts and tokens"
        )
    return found


def _from_path(
    spec: str, form: str, weight: float, data: Data, tokenizer: Tokenizer
) -> Ingredient:
    if is_store(spec):
        return Ingredient(name=spec, weight=weight, store=spec)
    if form == "dataset" or (form == "auto" and _is_saved_dataset(Path(spec))):
        return _from_dataset(spec, "dataset", {}, weight, data, tokenizer)
    if form == "factory":
        raise ConfigError("data.format factory: name it in data.dataset, not as a path")
    paths = find_files(spec)
    kinds = {kind_of(path) for path in paths} if form == "auto" else {form}
    if kinds == {"tokens"}:
        mark = tokenizer.end_of_document
        source: Source = TokenFiles(paths, spec, data.token_dtype, mark)
    elif "tokens" in kinds:
        raise DataError(f"{spec} holds token files and text files; name one kind")
    else:
        texts = TextFiles(paths, spec, text_rules(data), form)
        source = TextSource(texts, tokenizer)
    return Ingredient(name=spec, weight=weight, source=source)


def _from_dataset(
    name: str,
    form: str,
    kwargs: Mapping[str, Any],
    weight: float,
    data: Data,
    tokenizer: Tokenizer,
) -> Ingredient:
    opened = open_dataset(name, form, kwargs, data)
    found = []
    for samples in opened.parts:
        if opened.text:
            records = TextRecords(samples, name, text_rules(data))
            source = TextSource(records, tokenizer)
            found.append(Ingredient(name=name, weight=weight, source=source))
        else:
            found.append(Ingredient(name=name, weight=weight, samples=samples))
    return attrs.evolve(found[0], validation=found[1] if found[1:] else None)


def text_rules(data: Data) -> TextRules:
    """How texts become documents."""
    return TextRules(
        separator=data.document_separator,
        newlines=data.newlines,
        errors=data.encoding_errors,
        text_field=data.text_field,
        prompt_field=data.prompt_field,
        completion_field=data.completion_field,
    )


def _is_saved_dataset(path: Path) -> bool:
    names = ("dataset_info.json", "dataset_dict.json", "state.json")
    return any((path / name).is_file() for name in names)
