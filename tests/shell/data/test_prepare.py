"""Sources become token stores: once, whole, resumable, by one process at a time."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from speedtronic.errors import DataError, StorageError
from speedtronic.shell.data import prepare
from speedtronic.shell.data.documents import TextFiles
from speedtronic.shell.data.prepare import prepare_store
from speedtronic.shell.data.source import Chunk, TextSource
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.tokenizers import ByteTokenizer


def source(path: Path, mark: int | None = None, **rules: str) -> TextSource:
    """A text file with a byte tokenizer."""
    documents = TextFiles([path], path.name, TextRules(**rules))
    return TextSource(documents, ByteTokenizer(mark))


def text_file(folder: Path, data: bytes) -> Path:
    """A text file with this content."""
    path = folder / "text.txt"
    path.write_bytes(data)
    return path


def ids(store: Store) -> list[int]:
    """All tokens of a store."""
    return store.ids.windows(np.array([0]), store.about.tokens)[0].tolist()


def names(folder: Path) -> list[str]:
    """What is in a folder, locks left out."""
    return sorted(p.name for p in folder.iterdir() if p.suffix != ".lock")


class Interrupted(Exception):
    """Stands for a crash."""


@attrs.define
class Crashing:
    """A source that dies after some chunks."""

    inner: TextSource
    chunks_left: int
    starts: list[int] = attrs.field(factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def chunks(self, part: int, start: int) -> Iterator[Chunk]:
        """The chunks of the source, until it dies."""
        self.starts.append(start)
        for chunk in self.inner.chunks(part, start):
            if self.chunks_left == 0:
                raise Interrupted
            self.chunks_left -= 1
            yield chunk


def test_bytes_without_a_mark(tmp_path: Path) -> None:
    """The ids of a plain text are its bytes, and nothing else."""
    path = text_file(tmp_path, b"\xef\xbb\xbfhello")
    store = prepare_store(source(path), tmp_path / "cache")

    assert list(b"hello") == ids(store)
    assert "uint8" == store.about.dtype
    assert [[5, 5]] == store.documents().tolist()


def test_one_mark_after_each_document(tmp_path: Path) -> None:
    """Empty documents are none and get no mark."""
    path = text_file(tmp_path, b"ab||c|")
    store = prepare_store(source(path, 256, separator="|"), tmp_path / "cache")

    assert [97, 98, 256, 99, 256] == ids(store)
    assert [[3, 2], [5, 1]] == store.documents().tolist()


def test_a_mask_for_prompts(tmp_path: Path) -> None:
    """Prompt tokens do not count, those of the completion and the mark do."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"q": "ab", "a": "c"}\n')
    rules = {"prompt_field": "q", "completion_field": "a"}
    store = prepare_store(source(path, 256, **rules), tmp_path / "cache")

    assert store.mask is not None
    assert [97, 98, 99, 256] == ids(store)
    assert [0, 0, 1, 1] == store.mask.windows(np.array([0]), 4)[0].tolist()


def test_the_second_time_nothing_is_read(tmp_path: Path) -> None:
    """A store that exists is used as it is."""
    path = text_file(tmp_path, b"hello")
    prepare_store(source(path), tmp_path / "cache")
    before = names(tmp_path / "cache")
    again = Crashing(source(path), 0)
    prepare_store(again, tmp_path / "cache")

    assert [] == again.starts
    assert before == names(tmp_path / "cache")


def test_a_changed_file_is_another_source(tmp_path: Path) -> None:
    """Its store is made anew, with another fingerprint."""
    path = text_file(tmp_path, b"hello")
    first = prepare_store(source(path), tmp_path / "cache")
    path.write_bytes(b"hellO")
    second = prepare_store(source(path), tmp_path / "cache")

    assert list(b"hellO") == ids(second)
    assert first.about.fingerprint != second.about.fingerprint


def test_the_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    """The same text under another name has the same fingerprint."""
    first = prepare_store(source(text_file(tmp_path, b"hello")), tmp_path / "cache")
    (tmp_path / "b").mkdir()
    other = source(text_file(tmp_path / "b", b"hello"))
    second = prepare_store(other, tmp_path / "cache")

    assert first.folder != second.folder
    assert first.about.fingerprint == second.about.fingerprint


def test_a_shared_store_has_the_name_of_its_use(tmp_path: Path) -> None:
    """Messages name what this config names, not what made the store first."""
    path = text_file(tmp_path, b"hello")
    named = TextFiles([path], "*.txt", TextRules())
    made = prepare_store(source(path), tmp_path / "cache")
    found = prepare_store(TextSource(named, ByteTokenizer()), tmp_path / "cache")

    assert made.folder == found.folder
    assert ("text.txt", "*.txt") == (made.about.source, found.about.source)
    assert made.about.fingerprint == found.about.fingerprint


@pytest.mark.parametrize("crash_after", range(4))
def test_a_crash_costs_only_what_was_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_after: int
) -> None:
    """The next attempt goes on after the last saved document."""
    monkeypatch.setattr(prepare, "SAVE_BYTES", 1)
    path = text_file(tmp_path, b"ab|c|def|g")
    cache = tmp_path / "cache"
    with pytest.raises(Interrupted):
        prepare_store(Crashing(source(path, separator="|"), crash_after), cache)
    again = Crashing(source(path, separator="|"), 99)
    store = prepare_store(again, cache)

    assert [[0, 3, 5, 9][crash_after]] == again.starts
    assert b"abcdefg" == bytes(ids(store))
    assert [2, 3, 6, 7] == store.documents()[:, 0].tolist()
    whole = prepare_store(source(path, separator="|"), tmp_path / "other")
    assert whole.about == store.about


@pytest.mark.parametrize("damage", ["tokens.bin", "progress.json"])
def test_progress_that_cannot_be_trusted_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """If the files hold less than was noted, the work starts from the beginning."""
    monkeypatch.setattr(prepare, "SAVE_BYTES", 1)
    path = text_file(tmp_path, b"ab|c|def|g")
    cache = tmp_path / "cache"
    with pytest.raises(Interrupted):
        prepare_store(Crashing(source(path, separator="|"), 2), cache)
    (part,) = cache.glob(".*.part")
    (part / damage).write_bytes(b"{")
    again = Crashing(source(path, separator="|"), 99)
    store = prepare_store(again, cache)

    assert [0] == again.starts
    assert b"abcdefg" == bytes(ids(store))


@pytest.mark.parametrize(
    ("data", "told"),
    [(b"", "is empty"), (b"\xef\xbb\xbf", "holds no text"), (b"a\xff", "not UTF-8")],
)
def test_a_bad_source_leaves_nothing(tmp_path: Path, data: bytes, told: str) -> None:
    """No store, and no half of one, under any name."""
    cache = tmp_path / "cache"
    cache.mkdir()
    with pytest.raises(DataError, match=told):
        prepare_store(source(text_file(tmp_path, data)), cache)

    assert [] == names(cache)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    """The message says so, with both sizes, and no store is left."""
    path = text_file(tmp_path, b"hello")
    opened = source(path)
    path.write_bytes(b"hello world")
    cache = tmp_path / "cache"
    with pytest.raises(DataError) as caught:
        prepare_store(opened, cache)

    assert f"{path} changed while it was read: 5 bytes before, 11 now" in str(
        caught.value
    )
    assert [] == names(cache)


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    """It is named."""
    path = text_file(tmp_path, b"hello")
    opened = source(path)
    path.unlink()
    with pytest.raises(DataError, match=f"{path} cannot be read: No such file"):
        prepare_store(opened, tmp_path / "cache")


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    """Path and reason are told."""
    path = text_file(tmp_path, b"hello")
    (tmp_path / "cache").write_bytes(b"a file")
    with pytest.raises(StorageError, match="cache cannot be written"):
        prepare_store(source(path), tmp_path / "cache")


@pytest.mark.parametrize("documents", [1, 10])
def test_a_full_disk(tmp_path: Path, documents: int) -> None:
    """Path and reason are told; with more room the work goes on."""
    path = text_file(tmp_path, b"|".join([b"x" * (50_000 // documents)] * documents))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(StorageError, match="larger than this process may write"):
            prepare_store(source(path, separator="|"), tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store = prepare_store(source(path, separator="|"), tmp_path / "cache")

    assert 50_000 == store.about.tokens


def test_progress_is_told(tmp_path: Path) -> None:
    """A progress bar learns the source, the bytes done and the bytes in all."""
    told: list[tuple[str, int, int]] = []
    path = text_file(tmp_path, b"hello")
    prepare_store(source(path), tmp_path / "cache", lambda *args: told.append(args))

    assert [("text.txt", 5, 5)] == told


def test_progress_comes_to_an_end(tmp_path: Path) -> None:
    """Whatever became of the bytes: a byte order mark is not read as text."""
    told: list[tuple[str, int, int]] = []
    path = text_file(tmp_path, b"\xef\xbb\xbfhello")
    prepare_store(source(path), tmp_path / "cache", lambda *args: told.append(args))

    assert ("text.txt", 8, 8) == told[-1]


def test_two_processes_make_one_store(tmp_path: Path) -> None:
    """Both get it, and only one of them works."""
    path = text_file(tmp_path, b"line of text\n" * 1000)
    program = """
import sys
from pathlib import Path
from speedtronic.shell.data.documents import TextFiles
from speedtronic.shell.data.prepare import prepare_store
from speedtronic.shell.data.source import TextSource
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.tokenizers import ByteTokenizer

files = TextFiles([Path(sys.argv[1])], "text.txt", TextRules(separator="\\n"))
told = []
store = prepare_store(
    TextSource(files, ByteTokenizer()), Path(sys.argv[2]), lambda *a: told.append(a)
)
sys.stdout.write(f"{store.about.fingerprint} {bool(told)}")
"""
    command = [sys.executable, "-c", program, str(path), str(tmp_path / "cache")]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ)
        for _ in range(2)
    ]
    answers = [p.communicate(timeout=120)[0].decode().split() for p in running]

    assert ["False", "True"] == sorted(worked for _, worked in answers)
    assert 1 == len({fingerprint for fingerprint, _ in answers})


def test_a_killed_process_leaves_its_work_to_the_next(tmp_path: Path) -> None:
    """After kill -9 the lock is free and the saved part is used."""
    path = text_file(tmp_path, b"ab|c|def|g")
    program = """
import os, signal, sys
from pathlib import Path
from speedtronic.shell.data import prepare
from speedtronic.shell.data.documents import TextFiles
from speedtronic.shell.data.source import TextSource
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.tokenizers import ByteTokenizer

prepare.SAVE_BYTES = 1
files = TextFiles([Path(sys.argv[1])], "text.txt", TextRules(separator="|"))
prepare.prepare_store(
    TextSource(files, ByteTokenizer()),
    Path(sys.argv[2]),
    lambda _, done, __: os.kill(os.getpid(), signal.SIGKILL) if done >= 6 else None,
)
"""
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", program, str(path), str(cache)]
    killed = subprocess.run(command, env=os.environ, timeout=120, check=False)
    again = Crashing(source(path, separator="|"), 99)
    store = prepare_store(again, cache)

    assert -9 == killed.returncode
    assert [9] == again.starts
    assert b"abcdefg" == bytes(ids(store))
    assert [store.folder.name] == names(cache)
