"""Datasets and tokenizers that configs of the tests name as factories."""

import os
import random
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import torch

from speedtronic.shell.data.numbers import Array


@attrs.define
class Squares:
    """Samples (x, x squared), with noise from all three global generators."""

    size: int = 10
    noisy: bool = False
    broken: int | None = None

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        if number == self.broken:
            raise RuntimeError("no such picture")
        if not self.noisy:
            return number, torch.tensor([float(number) ** 2])
        drawn = [random.random(), float(np.random.rand()), float(torch.rand(()))]
        return number, np.array(drawn)


@attrs.define
class Counted:
    """An iterable of numbers, and nothing else."""

    size: int = 6

    def __iter__(self) -> Iterator[int]:
        yield from range(self.size)


@attrs.define
class Resumable:
    """An iterable of numbers that knows its position."""

    size: int = 6
    at: int = 0

    def __iter__(self) -> Iterator[int]:
        while self.at < self.size:
            self.at += 1
            yield self.at - 1
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        """The next number."""
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there."""
        self.at = state["at"]


def squares(**kwargs: Any) -> Squares:
    """A map-style dataset."""
    return Squares(**kwargs)


def squares_and_more(size: int = 10) -> tuple[Squares, Squares]:
    """One dataset to train on and one to validate with."""
    return Squares(size), Squares(3)


def counted(size: int = 6) -> Counted:
    """An iterable dataset without a position."""
    return Counted(size)


def resumable(size: int = 6) -> Resumable:
    """An iterable dataset with one."""
    return Resumable(size)


def texts() -> list[str]:
    """Documents of text."""
    return ["hello", "", "wörld"]


def streamed_texts() -> Iterator[str]:
    """Documents that can be read once."""
    yield from texts()


def text_records() -> list[dict[str, str]]:
    """Documents with a text field."""
    return [{"text": text, "title": "t"} for text in texts()]


def causal() -> list[dict[str, list[int]]]:
    """Token records of different lengths."""
    return [{"input_ids": list(range(2 + i % 3))} for i in range(8)]


def causal_twice() -> tuple[list[dict[str, list[int]]], list[dict[str, list[int]]]]:
    """Token records to train on and to validate with, with a high id."""
    return [{"input_ids": [1, 9, 2]}], [{"input_ids": [1, 9, 2]}]


def nothing() -> list[int]:
    """An empty dataset."""
    return []


def number() -> int:
    """No dataset at all."""
    return 5


def failing() -> None:
    """A factory that does not work."""
    raise OSError("the disk is on fire")


def questions() -> list[dict[str, str]]:
    """Records of text under other names."""
    return [{"question": "why", "answer": "because"}]


def no_text() -> list[dict[str, str | None]]:
    """Records without a text in the field of texts."""
    return [{"text": None}, {"text": "hello"}]


class BreakingTexts:
    """Texts of which one cannot be read."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> str:
        if number == 2:
            raise OSError("the disk is on fire")
        return "hello"


def leaving() -> None:
    """A factory that ends the program."""
    raise SystemExit(0)


def failing_stream() -> Iterator[str]:
    """Texts that break off."""
    yield "hello"
    raise OSError("the disk is on fire")


def splits() -> dict[str, list[str]]:
    """Datasets by name."""
    return {"train": texts(), "test": texts()}


def texts_and_samples() -> tuple[list[str], Squares]:
    """Two datasets of two kinds."""
    return texts(), Squares()


class Words:
    """A tokenizer of words, with a vocabulary that grows by use of hashing."""

    vocab_size = 100
    eos_token_id = 99

    def encode(self, text: str) -> list[int]:
        """A number below 90 for each word."""
        return [sum(word.encode()) % 90 for word in text.split()]

    def decode(self, ids: list[int]) -> str:
        """Numbers for words."""
        return " ".join(map(str, ids))


class Wrong(Words):
    """A tokenizer that leaves its vocabulary."""

    def encode(self, text: str) -> Array:
        """One id too high."""
        return np.array([1, 100])


class Halves(Words):
    """A tokenizer whose ids are no integers."""

    def encode(self, text: str) -> list[float]:  # type: ignore[override]
        """A fraction."""
        return [1.5]


class Markless(Words):
    """A tokenizer that has -1 for a mark, as some do for none."""

    eos_token_id = -1


class Wordless:
    """A tokenizer of words without a way back."""

    vocab_size = 100

    def encode(self, text: str) -> list[int]:
        """A number below 90 for each word."""
        return [sum(word.encode()) % 90 for word in text.split()]


class Silent(Words):
    """A tokenizer that cannot decode what it made."""

    def decode(self, ids: list[int]) -> str:
        """No text."""
        raise KeyError(ids[0])


class Dying(Words):
    """A tokenizer that takes its process with it."""

    def encode(self, text: str) -> list[int]:
        """No ids."""
        if text == "die":
            os._exit(9)
        return super().encode(text)


class Odd:
    """A tokenizer without a vocabulary."""

    def encode(self, text: str) -> list[int]:
        """Nothing."""
        return []
