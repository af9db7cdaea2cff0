"""Token sources behind the loop's interface."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from speedtronic.shell.data import Data

Opened = Callable[..., Data]
Text = Callable[..., Path]
WORDS = "the caf\u00e9 is open, the bar is not. " * 40


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A byte-level BPE tokenizer.json."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator([WORDS], trainer)
    path = tmp_path / "tokenizer.json"
    library.save(str(path))
    return path


@pytest.mark.parametrize("separator", [None, ". "])
def test_bytes_per_token(
    opened: Opened, text: Text, tokenizer: Path, separator: str | None
) -> None:
    """The held-out targets' bytes of text, marks counting for none."""
    held_out = "a caf\u00e9. the bar. caf\u00e9"
    data = opened(
        text_path=text(WORDS),
        validation_path=str(text(held_out, "val.txt")),
        tokenizer=str(tokenizer),
        document_separator=separator,
    )
    targets = [
        int(target)
        for batch in data.validation_batches(7)
        for target in batch["labels"].flatten()
        if target >= 0
    ]
    assert data.tokenizer is not None
    mark = data.tokenizer.end_of_document
    size = sum(len(data.tokenizer.decode([t]).encode()) for t in targets if t != mark)

    assert (1 if separator is None else 3) == targets.count(mark)
    assert size / len(targets) == data.bytes_per_token()


def test_bytes_with_a_mark(opened: Opened, text: Text) -> None:
    """Marks are targets without text."""
    data = opened(
        text_path=text("a" * 20),
        validation_path=str(text("abc|de", "val.txt")),
        document_separator="|",
        end_of_document="256",
    )

    assert 4 / 6 == data.bytes_per_token()


def test_the_state_is_a_few_integers(opened: Opened, text: Text) -> None:
    """They say where a run stands, also with another batch."""
    path = text(bytes(range(33)))
    fields = {"text_path": path, "order": "blocks", "validation_fraction": 0.0}
    state = opened(**fields, drop_last=False).state_dict(9)
    resumed = opened(**fields, drop_last=False, target_batch_size=2)
    resumed.load_state_dict(state)

    assert {"step": 9, "epoch": 1, "row": 1} == state
    assert {"step": 10, "epoch": 1, "row": 3} == resumed.state_dict(10)
