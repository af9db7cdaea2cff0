"""Datasets that configs name."""

from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from speedtronic.errors import ConfigError, DataError
from speedtronic.shell.data import Data

Opened = Callable[..., Data]
HERE = "tests.shell.data.factories"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:multiprocess")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No progress bars of the datasets library."""
    datasets.disable_progress_bars()


def all_targets(data: Data) -> bytes:
    """What a byte tokenizer made, without shuffling."""
    batch = data.train_batch(0).micro_batches[0]
    return bytes([*batch["input_ids"][0].tolist(), int(batch["labels"][0][-1])])


@pytest.mark.parametrize("factory", ["texts", "streamed_texts", "text_records"])
def test_texts_of_a_factory(opened: Opened, factory: str) -> None:
    """Lists, iterators and records of text are documents for the tokenizer."""
    data = opened(dataset=f"{HERE}:{factory}", block_size=10, shuffle=False)

    assert "hellow\u00f6rld".encode() == all_targets(data)


def test_the_language_reference(opened: Opened) -> None:
    """A text that every Python has."""
    data = opened(
        dataset="speedtronic.shell.data.samples:python_reference",
        block_size=64,
        shuffle=False,
    )

    assert b'The "assert" statement' in all_targets(data)
    assert data.has_validation


def test_a_saved_dataset(opened: Opened, tmp_path: Path) -> None:
    """A folder written by save_to_disk, as a dataset or as a path."""
    path = str(tmp_path / "saved")
    datasets.Dataset.from_dict({"text": ["hello", "world"]}).save_to_disk(path)
    fields = {"block_size": 9, "shuffle": False}

    assert b"helloworld" == all_targets(opened(dataset=path, **fields))
    assert b"helloworld" == all_targets(opened(text_path=path, **fields))


def test_splits(opened: Opened, tmp_path: Path) -> None:
    """The train split is trained on, the validation split held out."""
    path = str(tmp_path / "saved")
    parts = {"train": "hello", "validation": "world", "other": "xxxxx"}
    datasets.DatasetDict(
        {n: datasets.Dataset.from_dict({"text": [t]}) for n, t in parts.items()}
    ).save_to_disk(path)
    data = opened(dataset=path, shuffle=False)
    other = opened(dataset=path, shuffle=False, kwargs={"split": "other"})
    held = next(data.validation_batches(1))

    assert b"hello" == all_targets(data)
    assert b"xxxxx" == all_targets(other)
    assert list(b"worl") == held["input_ids"][0].tolist()


def test_tokens_of_a_saved_dataset(opened: Opened, tmp_path: Path) -> None:
    """Records without text are samples."""
    path = str(tmp_path / "saved")
    records = {"input_ids": [[1, 2, 3], [4, 5, 6]]}
    datasets.Dataset.from_dict(records).save_to_disk(path)
    data = opened(dataset=path, target_batch_size=2, micro_batch_size=2, shuffle=False)

    assert [[1, 2], [4, 5]] == data.train_batch(0).micro_batches[0][
        "input_ids"
    ].tolist()


def test_an_unknown_split(opened: Opened, tmp_path: Path) -> None:
    """The splits there are, are named."""
    path = str(tmp_path / "saved")
    datasets.DatasetDict(
        {"train": datasets.Dataset.from_dict({"text": ["x"]})}
    ).save_to_disk(path)
    with pytest.raises(DataError, match="has no split 'tst'; it has train"):
        opened(dataset=path, kwargs={"split": "tst"})


def test_a_folder_that_is_no_dataset(opened: Opened, tmp_path: Path) -> None:
    """The folder and the reason are told in one line."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError) as caught:
        opened(dataset=str(tmp_path / "empty"))

    assert "empty cannot be loaded: " in str(caught.value)
    assert 1 == len(str(caught.value).splitlines())


def test_a_name_without_a_factory(opened: Opened) -> None:
    """With format factory a plain name is refused."""
    with pytest.raises(ConfigError, match="expected package.module:factory"):
        opened(dataset="wikitext", format="factory")


def test_a_format_that_is_none_of_a_dataset(opened: Opened) -> None:
    """Formats of files are refused."""
    with pytest.raises(ConfigError, match="expected auto, factory or dataset"):
        opened(dataset=f"{HERE}:texts", format="jsonl")


@pytest.mark.parametrize(
    ("spec", "kwargs", "told"),
    [
        ("leaving", {}, "failed: SystemExit: 0 \\("),
        ("failing_stream", {}, "cannot be read: OSError: the disk is on fire \\("),
        ("squares", {"broken": 0}, "cannot be read: RuntimeError: no such picture"),
        ("squares", {"size": -1}, "cannot be read: ValueError: "),
        ("splits", {}, "a mapping of train, test, expected a dataset"),
        ("questions", {}, "no field 'text'; they have question, answer; set data.te"),
        ("no_text", {}, "record 0: field 'text' is NoneType, expected text"),
        ("BreakingTexts", {}, "record 2 cannot be read: OSError: the disk is on fi"),
        ("texts_and_samples", {}, "returned texts and samples, expected one kind"),
    ],
)
def test_code_of_the_user_that_fails(
    opened: Opened, spec: str, kwargs: dict[str, int], told: str
) -> None:
    """Whatever it raises or returns, the user reads one line that names it."""
    with pytest.raises(DataError, match=f"{spec}.*{told}"):
        opened(dataset=f"{HERE}:{spec}", kwargs=kwargs)
