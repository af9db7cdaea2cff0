"""Statistics of a config's data."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from speedtronic.errors import DataError
from speedtronic.pure.config import Config, Data, Source
from speedtronic.shell.data.stats import Stats, histogram, measure

Text = Callable[..., Path]


def measured(folder: Path, **fields: object) -> Stats:
    """The statistics of a data section."""
    return measure(
        Config(data=Data(block_size=4, **fields)),  # type: ignore[arg-type]
        directory=folder / "cache",
    )


def test_counts_of_a_text(tmp_path: Path, text: Text) -> None:
    """Documents, tokens, rows and steps of an epoch, and the split."""
    path = text(b"ab|" * 20 + b"wxyz")
    found = measured(
        tmp_path,
        text_path=str(path),
        document_separator="|",
        target_batch_size=2,
        order="blocks",
    )
    (source,) = found.sources

    assert (44, 21, 44) == (source.tokens, source.documents, source.text_bytes)
    assert (39, 5) == (found.train_tokens, found.held_out_tokens)
    assert (9, 4) == (source.rows_per_epoch, found.steps_per_epoch)
    assert [(2, 3, 20), (4, 7, 1)] == source.lengths
    assert ["'abab'"] == found.first_rows


def test_the_text_of_it(tmp_path: Path, text: Text) -> None:
    """Lengths are plotted; the longest bar has 40 characters."""
    path = text(b"ab|" * 20 + b"wxyz")
    shown = measured(tmp_path, text_path=str(path), document_separator="|").text()

    assert f"{'#' * 40} 20" in shown
    assert "documents                     21" in shown
    assert "first rows:\n  'abab'" in shown


def test_a_mixture_has_no_epoch(tmp_path: Path, text: Text) -> None:
    """Each source has rows per epoch, the whole has none."""
    paths = [str(text(b"a" * 50, name)) for name in ("a.txt", "b.txt")]
    found = measured(tmp_path, sources=tuple(Source(path=p) for p in paths))

    assert 2 == len(found.sources)
    assert found.steps_per_epoch is None


def test_samples_have_no_tokens(tmp_path: Path) -> None:
    """A dataset of samples has a fingerprint and notes."""
    found = measured(tmp_path, dataset="tests.shell.data.factories:squares")

    assert [] == found.sources
    assert "its content is not hashed" in found.text()


def test_data_that_cannot_be_used(tmp_path: Path) -> None:
    """The error is that of training."""
    with pytest.raises(DataError, match="does not exist"):
        measured(tmp_path, text_path=str(tmp_path / "none"))


def test_lengths_by_powers_of_two() -> None:
    """Bins go from the shortest to the longest, empty ones between included."""
    assert [] == histogram(np.array([], np.int64))
    assert [(4, 7, 2)] == histogram(np.array([4, 7]))
    assert [(1, 1, 1), (2, 3, 0), (4, 7, 1)] == histogram(np.array([1, 5]))


@pytest.mark.parametrize("tokenizer", ["Wordless", "Silent"])
def test_rows_that_nothing_decodes(tmp_path: Path, text: Text, tokenizer: str) -> None:
    """Training needs no decode, so neither does looking at the data."""
    found = measured(
        tmp_path,
        text_path=str(text(b"a a a a a a")),
        tokenizer=f"tests.shell.data.factories:{tokenizer}",
        order="blocks",
    )

    assert ["'7 7 7 7'"] == found.first_rows
