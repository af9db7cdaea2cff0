"""Texts and their tokenizer as a source of ids."""

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, trainers

from speedtronic.shell.data import source
from speedtronic.shell.data.source import TextSource
from speedtronic.shell.data.text import Piece
from speedtronic.shell.data.tokenizers import (
    ByteTokenizer,
    LibraryTokenizer,
    Tokenizer,
)

TEXTS = ["hello world " * 3, "  \n\n   \n", "caf\u00e9 \U0001f600", "hello"]


@attrs.define
class Cut:
    """Documents that come in pieces of a few bytes."""

    step: int
    name: str = "cut"
    masked: bool = False

    def identity(self) -> Any:
        """Nothing changes."""
        return self.name

    def parts(self) -> int:
        """One."""
        return 1

    def size(self) -> int:
        """Unknown."""
        return 0

    def check(self) -> None:
        """Nothing changes."""

    def pieces(self, part: int, start: int) -> Iterator[Piece]:
        """All texts."""
        del part, start
        for number, text in enumerate(TEXTS):
            data = text.encode()
            for at in range(0, len(data), self.step):
                last = at + self.step >= len(data)
                yield Piece(data[at : at + self.step], number, last=last, replaced=1)


@pytest.fixture(scope="module")
def merging() -> Tokenizer:
    """A byte-level BPE tokenizer that merges over spaces and words."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(["hello world hello world"] * 20, trainer)
    return LibraryTokenizer(library, "none", False)


def documents(found: TextSource) -> list[list[int]]:
    """The ids of each document."""
    result: list[list[int]] = [[]]
    for chunk in found.chunks(0, 0):
        result[-1] += chunk.ids.tolist()
        if chunk.last:
            result.append([])
    return result[:-1]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("batch_bytes", [1, 20, 10**6])
def test_ids_do_not_depend_on_pieces(
    merging: Tokenizer, monkeypatch: pytest.MonkeyPatch, size: int, batch_bytes: int
) -> None:
    """Tokenising in pieces gives the ids of the whole documents."""
    monkeypatch.setattr(source, "BATCH_BYTES", batch_bytes)
    for tokenizer in (merging, ByteTokenizer()):
        expected = [tokenizer.encode(text) for text in TEXTS]

        assert expected == documents(TextSource(Cut(size), tokenizer))
    assert len(merging.encode(TEXTS[0])) < len(TEXTS[0]) / 4


@pytest.mark.parametrize("size", [3, 1000])
def test_counts_survive_joining(merging: Tokenizer, size: int) -> None:
    """Bytes of text and replaced stretches are those of all pieces."""
    chunks = list(TextSource(Cut(size), merging).chunks(0, 0))
    pieces = list(Cut(size).pieces(0, 0))

    assert sum(len(text.encode()) for text in TEXTS) == sum(
        c.text_bytes for c in chunks
    )
    assert len(pieces) == sum(chunk.replaced for chunk in chunks)
    assert [0, 1, 2, 3] == [chunk.place for chunk in chunks]


def test_the_identity_follows_the_tokenizer(merging: Tokenizer) -> None:
    """Another tokenizer makes another store of the same text."""
    one, other = (TextSource(Cut(9), t) for t in (merging, ByteTokenizer()))

    assert one.identity() != other.identity()
