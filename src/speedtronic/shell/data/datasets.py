"""Datasets that a config names: those of the datasets library, and factories.

- ``package.module:factory`` is called with ``data.kwargs`` and returns a dataset, or a
  tuple of two: one to train on and one to validate with.
- Anything else is a folder written by ``save_to_disk``, or a name for `load_dataset`,
  which gets ``data.kwargs`` (``split``, ``name``, ``revision``, ...).

A dataset of texts, or of records with the text field, becomes documents for the
tokenizer. Every other one gives samples: by index if it has ``__len__`` and
``__getitem__``, else by iteration.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import ConfigError, DataError, UserError
from speedtronic.pure.config import Data
from speedtronic.shell.factory import failure, resolve

_HELD_OUT = ("validation", "valid", "dev", "test")


@attrs.frozen(kw_only=True)
class Opened:
    """A dataset, and what it turned out to be."""

    parts: tuple[Any, ...]  # to train on, and perhaps to validate with
    text: bool  # documents, to be tokenised


def open_dataset(name: str, form: str, kwargs: Mapping[str, Any], data: Data) -> Opened:
    """The dataset that a config names.

    Args:
        name: ``package.module:factory``, a folder, or a name for the library.
        form: the format in the config: auto, factory or dataset.
        kwargs: for the factory or the library.
        data: says which field holds text.

    Raises:
        DataError: it cannot be loaded or is empty.
        ConfigError: its factory cannot be found, or the format is none of a dataset.
    """
    if form not in ("auto", "factory", "dataset"):
        raise ConfigError(
            f"data.format: expected auto, factory or dataset for the dataset {name!r}, "
            f"found {form}"
        )
    if form == "factory" or (form == "auto" and ":" in name):
        made = call_factory(name, "data.dataset", kwargs)
        parts = made if isinstance(made, tuple) and len(made) == 2 else (made,)
        with own_code(name):
            looked = [_look(part, name, data) for part in parts]
        if len({text for _, text in looked}) > 1:
            raise DataError(f"{name} returned texts and samples, expected one kind")
        return Opened(parts=tuple(part for part, _ in looked), text=looked[0][1])
    return _open_library(name, kwargs, data)


def call_factory(spec: str, what: str, kwargs: Mapping[str, Any]) -> Any:
    """What the factory of a config makes.

    Raises:
        ConfigError: it cannot be found, or its arguments are not plain values.
        DataError: it fails.
    """
    factory = resolve(spec, what)
    try:
        json.dumps(kwargs)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{what}: its arguments are no plain values: {error}"
        ) from None
    try:
        return factory(**kwargs)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise DataError(f"{what}: {spec!r} failed: {failure(error)}") from error


@contextmanager
def own_code(name: str) -> Iterator[None]:
    """Turn whatever the code of a dataset raises into a `DataError`."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise DataError(f"{name} cannot be read: {failure(error)}") from error


def is_indexed(samples: Any) -> bool:
    """Whether samples can be had by number."""
    return hasattr(samples, "__len__") and hasattr(samples, "__getitem__")


def _look(made: Any, name: str, data: Data) -> tuple[Any, bool]:
    """A dataset that can be read from its start, and whether it holds texts."""
    if isinstance(made, str):
        return [made], True
    if isinstance(made, Mapping):
        raise DataError(
            f"{name} returned a mapping of {', '.join(map(str, made))}, expected a "
            "dataset; return one of these, or a tuple of two, the second to validate"
        )
    if is_indexed(made):
        if len(made) == 0:
            raise DataError(f"{name} is empty (0 samples)")
        return made, _is_text(made[0], name, data)
    if not isinstance(made, Iterable):
        raise DataError(
            f"{name} returned {type(made).__name__}, expected a dataset: something "
            "with __len__ and __getitem__, or with __iter__"
        )
    if iter(made) is not made and not _yields_text(made, name, data):
        return made, False
    iterator = iter(made)
    first = next(iterator, None)
    if first is None:
        raise DataError(f"{name} is empty (0 samples)")
    if not _is_text(first, name, data):
        raise DataError(
            f"{name} returned an iterator, which can be read only once; return an "
            "object whose __iter__ starts again, or a list"
        )
    return list(chain([first], iterator)), True


def _yields_text(made: Iterable[Any], name: str, data: Data) -> bool:
    """Whether the first sample is text; the dataset starts again afterwards."""
    if hasattr(made, "load_state_dict"):
        return False  # looking at it would move its position
    first = next(iter(made), None)
    if first is None:
        raise DataError(f"{name} is empty (0 samples)")
    return _is_text(first, name, data)


def _is_text(sample: Any, name: str, data: Data) -> bool:
    """Whether a sample is text; it is none without the fields, but with other text."""
    if not isinstance(sample, Mapping):
        return isinstance(sample, str)
    missing = [field for field in _text_fields(data) if field not in sample]
    if not missing:
        return all(isinstance(sample[f], str | None) for f in _text_fields(data))
    texts = any(isinstance(value, str) for value in sample.values())
    if texts and "input_ids" not in sample:
        raise DataError(
            f"{name}: its records have no field {missing[0]!r}; they have "
            f"{', '.join(map(str, sample))}; set data.text_field, or data.prompt_field "
            "and data.completion_field"
        )
    return False


def _text_fields(data: Data) -> list[str]:
    """The fields of a record that are read as text."""
    if data.prompt_field is None:
        return [data.text_field]
    return [data.prompt_field, data.completion_field or data.text_field]


def _open_library(name: str, kwargs: Mapping[str, Any], data: Data) -> Opened:
    try:
        import datasets
    except ImportError:
        raise DataError(
            f"{name} needs the datasets package: pip install 'speedtronic[datasets]'; "
            "or name a package.module:factory"
        ) from None
    rest = dict(kwargs)
    split = rest.pop("split", None)
    try:
        if Path(name).is_dir() and not rest:
            loaded = datasets.load_from_disk(name)
        else:
            loaded = datasets.load_dataset(name, split=split, **rest)
    except Exception as error:  # the library raises whatever its parts raise
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"dataset {name} cannot be loaded: {said}") from None
    held_out = None
    if isinstance(loaded, Mapping):
        chosen = split or "train"
        if chosen not in loaded:
            has = ", ".join(loaded)
            raise DataError(f"dataset {name} has no split {chosen!r}; it has {has}")
        others = (loaded[s] for s in _HELD_OUT if s in loaded and s != chosen)
        held_out = next((part for part in others if len(part)), None)
        loaded = loaded[chosen]
    if not is_indexed(loaded):
        raise DataError(
            f"dataset {name} is streamed and has no length; leave out streaming, or "
            "return it from a package.module:factory"
        )
    if len(loaded) == 0:
        raise DataError(f"dataset {name} is empty (0 records)")
    parts = [loaded] if held_out is None else [loaded, held_out]
    text = _is_text(loaded[0], name, data)
    if text:
        parts = [part.select_columns(_text_fields(data)) for part in parts]
    return Opened(parts=tuple(parts), text=text)
