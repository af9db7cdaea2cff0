"""Sources of text: files, or the records of a dataset."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from speedtronic.errors import DataError
from speedtronic.shell.data.datasets import own_code
from speedtronic.shell.data.files import check_unchanged, kind_of, look
from speedtronic.shell.data.text import (
    Piece,
    TextRules,
    encoded,
    json_pieces,
    record_pieces,
    text_pieces,
)

_SLICE = 1000  # records


class Documents(Protocol):
    """Text in parts (files, or one dataset) that hold documents."""

    name: str
    masked: bool  # whether some text is read but not learned

    def identity(self) -> Any:
        """What changes when the text does, as JSON values."""
        ...

    def parts(self) -> int:
        """Number of parts."""
        ...

    def size(self) -> int:
        """About how many bytes of text there are."""
        ...

    def check(self) -> None:
        """Raise DataError if the text changed since it was opened."""
        ...

    def pieces(self, part: int, start: int) -> Iterator[Piece]:
        """The documents of a part, from a place on."""
        ...


class TextFiles:
    """Text and JSON-lines files, one part each.

    Args:
        paths: at least one file.
        name: what to call them.
        rules: how files become documents.
        kind: text, jsonl, or auto to go by each file's ending.

    Raises:
        DataError: a file is missing, or all are empty.
    """

    def __init__(
        self, paths: list[Path], name: str, rules: TextRules, kind: str = "auto"
    ) -> None:
        kinds = {kind_of(path) if kind == "auto" else kind for path in paths}
        self.name, self.masked = name, rules.masked and "jsonl" in kinds
        self._rules, self._kind = rules, kind
        self._files = [look(path) for path in paths]
        if not any(file.size for file in self._files):
            raise DataError(f"{name} is empty (0 bytes)")

    def identity(self) -> Any:
        """Paths, sizes and times of the files, and the rules."""
        files = [file.identity() for file in self._files]
        return ["files", files, self._kind, attrs.asdict(self._rules)]

    def parts(self) -> int:
        """Number of files."""
        return len(self._files)

    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self._files)

    def check(self) -> None:
        """Compare every file with what it was."""
        check_unchanged(self._files)

    def pieces(self, part: int, start: int) -> Iterator[Piece]:
        """The documents of one file."""
        path = self._files[part].path
        kind = kind_of(path) if self._kind == "auto" else self._kind
        read = json_pieces if kind == "jsonl" else text_pieces
        return read(path, self._rules, start)


class TextRecords:
    """Texts, or records with a text field, that are held in memory or by a dataset.

    Args:
        records: a sequence of text or of mappings.
        name: what to call it.
        rules: the fields of a record.

    They are known by a hash of all texts; a dataset of the datasets library has one.
    """

    def __init__(self, records: Any, name: str, rules: TextRules) -> None:
        records_have_fields = len(records) > 0 and isinstance(records[0], Mapping)
        self.name, self.masked = name, rules.masked and records_have_fields
        self._records, self._rules = records, rules
        self._fingerprint = getattr(records, "_fingerprint", None) or self._hash()

    def identity(self) -> Any:
        """A hash of the content, and the rules."""
        return ["records", self._fingerprint, attrs.asdict(self._rules)]

    def parts(self) -> int:
        """One: a record is a document."""
        return 1

    def size(self) -> int:
        """Bytes of the first records, scaled to all."""
        count = len(self._records)
        first = min(count, 100)
        some = zip(range(first), self._from(0), strict=False)
        sizes = (len(p.text) for i, record in some for p in self._pieces(i, record))
        return sum(sizes) * count // max(1, first)

    def check(self) -> None:
        """Nothing to compare: the records are held."""

    def pieces(self, part: int, start: int) -> Iterator[Piece]:
        """The documents from record ``start`` on."""
        del part  # there is one
        for number, record in enumerate(self._from(start), start):
            yield from self._pieces(number, record)

    def _from(self, start: int) -> Iterator[Any]:
        """The records from one on; columns are taken in slices, which is fast."""
        records, count = self._records, len(self._records)
        if not hasattr(records, "column_names"):
            for number in range(start, count):
                with own_code(f"{self.name}: record {number}"):
                    record = records[number]
                yield record
            return
        for first in range(start, count, _SLICE):
            columns: dict[str, Any] = records[first : first + _SLICE]
            for values in zip(*columns.values(), strict=True):
                yield dict(zip(columns, values, strict=True))

    def _pieces(self, number: int, record: Any) -> Iterator[Piece]:
        where = f"{self.name}: record {number}"
        if isinstance(record, str):
            if record:
                yield Piece(encoded(record, where), number + 1)
        elif isinstance(record, Mapping):
            yield from record_pieces(record, self._rules, where, number + 1)
        else:
            found = type(record).__name__
            raise DataError(f"{where} is {found}, expected text or a mapping")

    def _hash(self) -> str:
        digest = hashlib.sha256()
        for piece in self.pieces(0, 0):
            digest.update(b"%d %d " % (piece.place, len(piece.text)))
            digest.update(piece.text)
        return digest.hexdigest()
