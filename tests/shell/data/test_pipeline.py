"""Configs opened as data: what is trained on, held out, refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speedtronic.errors import ConfigError, DataError
from speedtronic.pure.config import Model, Source
from speedtronic.shell.data import Data

Opened = Callable[..., Data]
Text = Callable[..., Path]


def rows(data: Data, steps: int = 1) -> list[list[int]]:
    """The rows of the first steps: inputs and the last label."""
    found = []
    for step in range(steps):
        for batch in data.train_batch(step).micro_batches:
            ends = batch["labels"][:, -1:].tolist()
            pairs = zip(batch["input_ids"].tolist(), ends, strict=True)
            found += [inputs + end for inputs, end in pairs]
    return found


def validation_targets(data: Data, batch_size: int = 3) -> list[int]:
    """All held-out targets in order."""
    return [
        int(target)
        for batch in data.validation_batches(batch_size)
        for target in batch["labels"].flatten()
        if target >= 0
    ]


def test_a_text_becomes_batches(opened: Opened, text: Text) -> None:
    """Inputs and labels of the micro-batches, with counts."""
    path = text(bytes(range(65, 91)))
    data = opened(text_path=path, target_batch_size=4, micro_batch_size=2)
    step = data.train_batch(0)

    assert (4, 16) == (step.samples, step.tokens)
    assert 2 == len(step.micro_batches)
    for batch in step.micro_batches:
        assert (2, 4) == tuple(batch["input_ids"].shape)
        assert (batch["input_ids"] + 1).tolist() == batch["labels"].tolist()
        assert batch["labels"].is_contiguous()


@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_short_text_is_named(opened: Opened, text: Text, size: int) -> None:
    """Path, tokens there are and tokens needed."""
    path = text(b"x" * size, "train.txt")
    with pytest.raises(DataError) as caught:
        opened(text_path=path)

    told = f"has {size} tokens, block_size 4 needs 5" if size else "is empty (0 bytes)"
    assert f"{path} {told}" == str(caught.value)


def test_a_block_and_one_token_is_one_sample(opened: Opened, text: Text) -> None:
    """Nothing is held out of a text that small, and that is said."""
    data = opened(text_path=text(b"abcde"))

    assert [[97, 98, 99, 100, 101]] == rows(data)
    assert not data.has_validation
    assert [] == list(data.validation_batches(1))
    assert "too few to hold 0.1 of them out" in data.notes[0]


def test_the_last_part_is_held_out(opened: Opened, text: Text) -> None:
    """Training and validation share no token; every held-out target comes once."""
    data = opened(text_path=text(bytes(range(100))), validation_fraction=0.2)
    trained = {token for row in rows(data, 200) for token in row}

    assert set(range(80)) == trained
    assert list(range(81, 100)) == validation_targets(data)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_validation_is_the_same_for_any_batch_size(
    opened: Opened, text: Text, batch_size: int
) -> None:
    """The last batch is short, the last row filled up with ignored targets."""
    data = opened(text_path=text(bytes(range(100))), validation_fraction=0.25)
    batches = list(data.validation_batches(batch_size))

    assert list(range(76, 100)) == validation_targets(data, batch_size)
    assert 6 == sum(len(batch["labels"]) for batch in batches)
    assert {4} == {batch["labels"].shape[1] for batch in batches}


def test_a_tail_is_filled_up_not_dropped(opened: Opened, text: Text) -> None:
    """22 held-out tokens have 21 targets: five rows of four and one of one."""
    data = opened(text_path=text(bytes(range(88))), validation_fraction=0.25)
    last = list(data.validation_batches(100))[0]["labels"][-1]

    assert [87, -100, -100, -100] == last.tolist()
    assert 21 == len(validation_targets(data))


def test_a_validation_file(opened: Opened, text: Text) -> None:
    """Then all of the training text is trained on."""
    path, other = text(bytes(range(29))), text(b"hello world", "val.txt")
    data = opened(text_path=path, validation_path=str(other), order="blocks")

    assert list(b"ello world") == validation_targets(data)
    assert set(range(29)) == {token for row in rows(data, 7) for token in row}
    assert 1.0 == data.bytes_per_token()


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "is empty (0 bytes)"), (b"x", "has 1 tokens, validation needs 2")],
)
def test_a_short_validation_file(
    opened: Opened, text: Text, content: bytes, told: str
) -> None:
    """It is an error, not a loss of 0."""
    path, other = text(b"a" * 30), text(content, "val.txt")
    with pytest.raises(DataError) as caught:
        opened(text_path=path, validation_path=str(other))

    assert f"{other} {told}" == str(caught.value)


def test_an_id_beyond_the_model(opened: Opened, text: Text) -> None:
    """Source, id, its place and the sizes are named before training."""
    path = text(b"aaaa\xc3\xa9aaaaaaaaaa")
    with pytest.raises(DataError) as caught:
        opened(Model(vocab_size=128), text_path=path)

    assert (
        f"{path}: id 195 at token 4 is beyond model.vocab_size 128 (ids 0 to 127); "
        "the tokenizer has 256 ids"
    ) == str(caught.value)


def test_an_id_beyond_the_data(opened: Opened, text: Text) -> None:
    """data.vocab_size counts too."""
    with pytest.raises(DataError, match="beyond data.vocab_size 100 "):
        opened(text_path=text(b"z" * 30), vocab_size=100)


def test_a_tokenizer_that_could_exceed_the_model(opened: Opened, text: Text) -> None:
    """If the data does not, that is a note and not an error."""
    data = opened(Model(vocab_size=128), text_path=text(b"a" * 30))

    assert "the tokenizer has 256 ids, model.vocab_size is 128" in data.notes[0]


def test_another_model_has_its_own_vocabulary(opened: Opened, text: Text) -> None:
    """model.vocab_size says nothing about a model from a factory."""
    data = opened(Model(name="m:f", vocab_size=10), text_path=text(b"a" * 30))

    assert 256 == data.vocab_size


def test_a_block_beyond_the_model(opened: Opened, text: Text) -> None:
    """The reference model takes rows up to max_seq_len."""
    with pytest.raises(ConfigError, match="at most model.max_seq_len 8, found 9"):
        opened(Model(max_seq_len=8), text_path=text(b"a" * 30), block_size=9)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"synthetic": False}, "data.text_path: expected a source"),
        ({"micro_batch_size": 2, "target_batch_size": 3}, "expected a multiple of"),
        ({"sources": (Source(),)}, "expected either path or dataset"),
    ],
)
def test_configs_that_contradict_themselves(
    opened: Opened, fields: dict[str, Any], told: str
) -> None:
    """They are refused by name."""
    with pytest.raises(ConfigError, match=told):
        opened(**fields)


def test_a_step_that_the_ranks_cannot_divide(opened: Opened) -> None:
    """The number it should be a multiple of is told."""
    with pytest.raises(ConfigError, match=r"a multiple of 6 \(.*3 ranks\), found 8"):
        opened(micro_batch_size=2, target_batch_size=8, shard={"rank": 0, "ranks": 3})


def test_an_epoch_shorter_than_a_step(opened: Opened, text: Text) -> None:
    """With drop_last it would give nothing; the message has both numbers."""
    path = text(b"abcdefghijkl")
    with pytest.raises(DataError) as caught:
        opened(text_path=path, target_batch_size=4)

    assert f"{path} has 1 rows per epoch, a step takes 4" in str(caught.value)
    data = opened(text_path=path, target_batch_size=4, drop_last=False)
    assert 4 == data.train_batch(0).samples


@pytest.mark.parametrize("part", ["train", "held out"])
def test_ids_of_samples_are_checked(opened: Opened, part: str) -> None:
    """Those of a dataset's own records too, in training and in validation."""
    data = opened(
        Model(vocab_size=5), dataset="tests.shell.data.factories:causal_twice"
    )
    with pytest.raises(DataError, match=r"input_ids has 9 .* \(model.vocab_size 5\)"):
        data.train_batch(0) if part == "train" else next(data.validation_batches(1))


def test_made_up_tokens_are_told(opened: Opened) -> None:
    """Nobody takes the synthetic stream for the text that was forgotten."""
    assert ("data: no source is named, so the tokens are made up",) == opened().notes


def test_the_synthetic_stream(opened: Opened) -> None:
    """Without a source tokens are made up, below the model's vocabulary."""
    data = opened(Model(vocab_size=16), num_tokens=1000)
    ids = {token for row in rows(data, 50) for token in row}

    assert ids <= set(range(16))
    assert data.has_validation
    assert 99 == len(validation_targets(data))


def test_documents_of_json_lines(opened: Opened, text: Text) -> None:
    """In documents order rows begin at documents and no row crosses two unmarked."""
    lines = b"".join(b'{"text": "%s"}\n' % (bytes([65 + i]) * 3) for i in range(20))
    data = opened(
        text_path=text(lines, "a.jsonl"), order="documents", validation_fraction=0.0
    )
    step = data.train_batch(0).micro_batches[0]
    starts = {row[0] for row in step["input_ids"].tolist()}

    assert starts <= set(range(65, 85))
    assert 4 == data.train_batch(0).tokens  # two documents of two positions each


def test_prompts_are_not_learned(opened: Opened, text: Text) -> None:
    """Labels in the prompt are -100 and do not count as tokens."""
    line = b'{"q": "aaaa", "a": "bb"}\n'
    for order in ("blocks", "documents"):
        data = opened(
            text_path=text(line * 10, "a.jsonl"),
            prompt_field="q",
            completion_field="a",
            order=order,
            block_size=5,
            validation_fraction=0.0,
            target_batch_size=2,
        )
        step = data.train_batch(0)
        labels = step.micro_batches[0]["labels"]

        assert {-100, 98} == set(labels.flatten().tolist())
        assert step.tokens == sum(
            int((b["labels"] == 98).sum()) for b in step.micro_batches
        )
        assert data.bytes_per_token() is None


def test_a_mixture(opened: Opened, text: Text) -> None:
    """Rows come from the sources in proportion, each in its own order."""
    sources = (
        Source(path=str(text(b"a" * 50, "a.txt")), weight=1.0),
        Source(path=str(text(b"b" * 50, "b.txt")), weight=3.0),
    )
    data = opened(sources=sources, target_batch_size=4)
    found = [row[0] for row in rows(data, 4)]

    assert (4, 12) == (found.count(97), found.count(98))
    assert 98 == validation_targets(data)[-1]


def test_names_of_fingerprints(opened: Opened, text: Text) -> None:
    """The fingerprint follows the content, the split and the weights."""
    path, other = text(b"abc" * 20), text(b"abd" * 20, "b.txt")
    base = opened(text_path=path).fingerprint

    assert base == opened(text_path=path, target_batch_size=2, seed=9).fingerprint
    assert base != opened(text_path=other).fingerprint
    assert base != opened(text_path=path, validation_fraction=0.2).fingerprint


def test_workers_that_are_not_needed(opened: Opened, text: Text) -> None:
    """An option without effect is told."""
    data = opened(text_path=text(b"abc" * 20), num_workers=2)

    assert ("data.num_workers has no effect: token stores need no workers",) == (
        data.notes
    )


def test_token_files_without_a_tokenizer_for_them(opened: Opened, text: Text) -> None:
    """Ids that bytes cannot be: there is nothing to decode them with."""
    path = text(np.arange(300, dtype="<u2").tobytes(), "a.bin")
    data = opened(Model(vocab_size=300), text_path=path)

    assert data.tokenizer is None
    assert 300 == data.vocab_size


def test_cases_of_one_kind_cannot_be_mixed_with_another(
    opened: Opened, text: Text, tmp_path: Path
) -> None:
    """A folder of token files and text files is refused."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"x")
    (folder / "a.bin").write_bytes(b"xx")
    with pytest.raises(DataError, match="holds token files and text files"):
        opened(text_path=folder)


def test_a_bad_byte_in_the_second_of_three_files(
    opened: Opened, text: Text, tmp_path: Path
) -> None:
    """The file is named, not only the folder."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in (("a", b"fine"), ("b", b"caf\xe9\n"), ("c", b"fine")):
        (folder / f"{name}.txt").write_bytes(data)
    with pytest.raises(DataError, match="b.txt is not UTF-8: byte e9 at offset 3"):
        opened(text_path=folder)
    data = opened(text_path=folder, encoding_errors="replace")
    assert "1 stretches that are not UTF-8 were replaced" in data.notes[0]


def test_nodes_that_do_not_know_each_other(opened: Opened, text: Text) -> None:
    """Each reads all rows of an epoch, in an order made from its name."""
    path = text(bytes(range(90)))
    orders = {}
    for name in ("north", "south"):
        data = opened(
            text_path=path, order="blocks", shard={"node": name, "nodes": None}
        )
        orders[name] = [row[0] for row in rows(data, 20)]

    assert set(orders["north"]) == set(orders["south"]) == set(range(0, 80, 4))
    assert orders["north"] != orders["south"]
