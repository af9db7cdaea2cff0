"""Tokenizers and their marks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from speedtronic.errors import ConfigError, DataError
from speedtronic.pure.config import Data
from speedtronic.shell.data.tokenizers import (
    ByteTokenizer,
    LibraryTokenizer,
    PythonTokenizer,
    Tokenizer,
    build_tokenizer,
    tokenizer_content,
)

HERE = "tests.shell.data.factories"
Trained = Callable[..., Path]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer.json with one special token."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(["hello world, hello words"] * 50, trainer)
    path = tmp_path_factory.mktemp("bpe") / "tokenizer.json"
    library.save(str(path))
    return path


def built(name: str | Path, **fields: Any) -> Tokenizer:
    """The tokenizer of a config."""
    return build_tokenizer(Data(tokenizer=str(name), **fields))


def encoded(tokenizer: Tokenizer, texts: list[str], size: int) -> list[list[int]]:
    """Ids of texts, given in batches of this size."""
    data = [text.encode() for text in texts]
    batches = [data[i : i + size] for i in range(0, len(data), size)]
    return [
        ids.tolist() for found in tokenizer.encode_batches(batches) for ids in found
    ]


def test_bytes_are_reversible() -> None:
    """Any text comes back."""
    tokenizer = ByteTokenizer()
    text = "caf\u00e9 \u4e2d\U0001f600\x00\r\n<|endoftext|>"

    assert text == tokenizer.decode(tokenizer.encode(text))
    assert (256, None) == (tokenizer.vocab_size, tokenizer.end_of_document)


def test_bytes_with_a_mark() -> None:
    """A mark takes an id of its own, and decodes to nothing."""
    tokenizer = built("bytes", end_of_document="256")

    assert (257, 256) == (tokenizer.vocab_size, tokenizer.end_of_document)
    assert "a" == tokenizer.decode([97, 256])


def test_a_file_of_the_library(trained: Path) -> None:
    """Ids, text and mark are those of the file."""
    tokenizer = built(trained)
    library = Library.from_file(str(trained))
    text = "hello  world,\n\n words caf\u00e9"

    assert library.encode(text, add_special_tokens=False).ids == tokenizer.encode(text)
    assert text == tokenizer.decode(tokenizer.encode(text))
    assert library.token_to_id("<|endoftext|>") == tokenizer.end_of_document
    assert library.get_vocab_size() == tokenizer.vocab_size


def test_its_folder_will_do(trained: Path) -> None:
    """A folder with a tokenizer.json names it."""
    assert built(trained).identity == built(trained.parent).identity


def test_special_tokens_in_text_stay_text(trained: Path) -> None:
    """Unless asked, text that looks like a mark is encoded letter by letter."""
    text = "a<|endoftext|>b"
    plain, special = built(trained), built(trained, special_tokens_in_text=True)

    assert plain.end_of_document not in plain.encode(text)
    assert special.end_of_document in special.encode(text)
    assert text == plain.decode(plain.encode(text))
    assert plain.identity != special.identity


@pytest.mark.parametrize("size", [1, 2, 7])
def test_ids_do_not_depend_on_batches(trained: Path, size: int) -> None:
    """A document's ids are the same alone and among others."""
    texts = ["hello world " * 5, "   \n\n  ", "words", "", "caf\u00e9"]
    for tokenizer in (built(trained), built(f"{HERE}:Words"), ByteTokenizer()):
        expected = [tokenizer.encode(text) for text in texts]

        assert expected == encoded(tokenizer, texts, size)


def test_python_tokenizers_in_processes() -> None:
    """Workers give the same ids in the same order."""
    texts = [f"some words {i}" for i in range(20)]
    alone, shared = (built(f"{HERE}:Words", num_workers=n) for n in (0, 2))

    assert encoded(alone, texts, 10) == encoded(shared, texts, 10)
    assert alone.identity == shared.identity


def test_a_process_that_dies() -> None:
    """It is told as what it is."""
    tokenizer = built(f"{HERE}:Dying", num_workers=1)
    with pytest.raises(DataError, match="Dying': a process of it died, perhaps"):
        encoded(tokenizer, ["die"], 1)


@pytest.mark.parametrize(
    ("mark", "found"), [("auto", 99), ("none", None), ("7", 7), ("120", 120)]
)
def test_marks_of_an_object(mark: str, found: int | None) -> None:
    """Its own, none, or an id, which may enlarge the vocabulary."""
    tokenizer = built(f"{HERE}:Words", end_of_document=mark)

    assert found == tokenizer.end_of_document
    assert max(100, 1 + (found or 0)) == tokenizer.vocab_size


def test_the_identity_follows_the_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that encodes otherwise is another tokenizer."""
    before = built(f"{HERE}:Words").identity
    monkeypatch.setattr(f"{HERE}.Words.encode", lambda _, text: [len(text)])

    assert before != built(f"{HERE}:Words").identity


def test_an_object_of_the_library(trained: Path) -> None:
    """A factory that returns one gets the same treatment as its file."""
    kwargs = {"path": str(trained)}
    made = built("tokenizers:Tokenizer.from_file", tokenizer_kwargs=kwargs)

    assert isinstance(made, LibraryTokenizer)
    assert built(trained).identity == made.identity


@pytest.mark.parametrize(
    ("fields", "error", "told"),
    [
        ({"tokenizer": "byte"}, DataError, "expected bytes, a tokenizer.json or"),
        ({"end_of_document": "</s>"}, DataError, "the tokenizer has no token '</s>'"),
        ({"tokenizer": f"{HERE}:Odd"}, DataError, "its object has no vocab_size"),
        ({"tokenizer": f"{HERE}:number"}, DataError, "its object has no encode"),
        ({"tokenizer": f"{HERE}:Word"}, ConfigError, "did you mean 'Words'"),
        ({"tokenizer": f"{HERE}:Wrong"}, DataError, "gave the id 100 for"),
        ({"tokenizer": f"{HERE}:Halves"}, DataError, "'float' object cannot be"),
        ({"tokenizer": f"{HERE}:Markless"}, DataError, "its eos_token_id is -1"),
        ({"tokenizer": f"{HERE}:failing"}, DataError, "the disk is on fire"),
    ],
)
def test_tokenizers_that_cannot_be_used(
    fields: dict[str, str], error: type[Exception], told: str
) -> None:
    """What was named and what is wrong with it."""
    with pytest.raises(error) as caught:
        build_tokenizer(Data(**fields))

    assert told in str(caught.value)


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    """It is named."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"version": "1.0"}))
    with pytest.raises(DataError, match=f"{path} is not a tokenizer.json"):
        built(path)


def test_a_tokenizer_without_decode() -> None:
    """Encoding is enough to train."""

    class Encoder:
        vocab_size = 5

        def encode(self, text: str) -> Any:
            return np.array([len(text) % 5])

    tokenizer = PythonTokenizer(Encoder(), ("m:Encoder", {}), "auto", 0)

    assert [3] == tokenizer.encode("abc")
    with pytest.raises(DataError, match="'m:Encoder' has no decode"):
        tokenizer.decode([1])


def test_a_file_is_named_by_its_content(trained: Path, tmp_path: Path) -> None:
    """Wherever it is, and also by its folder; what is no file keeps its name."""
    copy = tmp_path / "copy.json"
    copy.write_bytes(trained.read_bytes())
    named = {tokenizer_content(str(p)) for p in (trained, trained.parent, copy)}
    (name,) = named

    assert name.startswith("sha256:") and 71 == len(name)
    for other in ("bytes", f"{HERE}:Words", str(tmp_path / "none.json")):
        assert other == tokenizer_content(other)
