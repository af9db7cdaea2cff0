"""Token stores being written."""

from pathlib import Path

import numpy as np
import pytest

from speedtronic.errors import DataError
from speedtronic.shell.data.source import Chunk
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.writer import StoreWriter, dtype_for


def chunk(*ids: int, text: int = 0, learned: bool = True, last: bool = True) -> Chunk:
    """Some ids."""
    return Chunk(np.array(ids), text, text, 0, learned, last)


def finished(writer: StoreWriter, folder: Path) -> Store:
    """The store of what was appended."""
    writer.finish("test")
    return Store(folder)


def test_documents_and_counts(tmp_path: Path) -> None:
    """Ends, bytes of text, the highest id and its first place."""
    writer = StoreWriter(tmp_path, "uint16", None, masked=False)
    for part in (
        chunk(1, 300, text=5, last=False),
        chunk(7, text=2),
        chunk(300, text=1),
    ):
        writer.append(part)
    store = finished(writer, tmp_path)

    assert [[3, 7], [4, 1]] == store.documents().tolist()
    assert (300, 1, 8) == (
        store.about.max_id,
        store.about.max_id_at,
        store.about.text_bytes,
    )


def test_a_document_without_tokens_is_none(tmp_path: Path) -> None:
    """It gets no mark, and its bytes go to nobody."""
    writer = StoreWriter(tmp_path, "uint16", 9, masked=False)
    for part in (chunk(text=4), chunk(1, text=1)):
        writer.append(part)

    assert [[2, 1]] == finished(writer, tmp_path).documents().tolist()


def test_a_mark_may_be_the_highest_id(tmp_path: Path) -> None:
    """The check of ids sees it."""
    writer = StoreWriter(tmp_path, "uint16", 400, masked=False)
    writer.append(chunk(1))

    assert (400, 1) == (
        finished(writer, tmp_path).about.max_id,
        Store(tmp_path).about.max_id_at,
    )


def test_what_was_not_saved_is_cut_off(tmp_path: Path) -> None:
    """A second writer goes on from the last save, and the hashes agree."""
    first = StoreWriter(tmp_path / "a", "uint8", None, masked=True)
    first.append(chunk(1, 2, learned=False))
    first.save(0, 5, 2)
    first.append(chunk(3))
    first.close()
    second = StoreWriter(tmp_path / "a", "uint8", None, masked=True)
    place = second.progress.place
    second.append(chunk(4))
    once = StoreWriter(tmp_path / "b", "uint8", None, masked=True)
    once.append(chunk(1, 2, learned=False))
    once.append(chunk(4))

    assert 5 == place
    assert (
        finished(once, tmp_path / "b").about == finished(second, tmp_path / "a").about
    )


def test_a_vocabulary_beyond_32_bits() -> None:
    """No dtype holds it."""
    with pytest.raises(DataError, match="does not fit in 32 bits"):
        dtype_for(2**32 + 1)
