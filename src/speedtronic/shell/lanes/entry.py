"""One revision of a directory lane, as its log holds it."""

import hashlib
import json
from typing import Any

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.blobname import name_problem
from speedtronic.pure.round import plain
from speedtronic.pure.strict_json import parse
from speedtronic.shell.atomic import Digest

REVISION = r"([0-9]{1,12})-[0-9a-f]{32}"


@attrs.frozen
class Entry:
    """A whole tree of names; what no longer is in the newest entry is deleted."""

    serial: int
    previous: str | None  # the revision before
    nonce: str
    message: str
    tree: dict[str, Digest]

    def encode(self) -> bytes:
        """A line with the sha256 of the rest, then JSON."""
        told = attrs.asdict(self, recurse=False)
        told["tree"] = {name: [d.sha256, d.size] for name, d in self.tree.items()}
        body = json.dumps(told, sort_keys=True).encode()
        return hashlib.sha256(body).hexdigest().encode() + b"\n" + body

    @staticmethod
    def decode(text: bytes) -> "Entry":
        """Undo ``encode``.

        Raises:
            Corrupt: the bytes are not what was written, or a name is not allowed.

        >>> entry = Entry(1, None, "f3" * 16, "first", {"a": Digest("6b" * 32, 1)})
        >>> Entry.decode(entry.encode()) == entry
        True
        """
        total, _, body = text.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != total:
            raise Corrupt("its sha256 differs")
        try:
            told = parse(body)
        except ValueError as error:
            raise Corrupt(str(error)) from None
        return Entry(**plain.record(told, "entry", _READERS))

    @property
    def revision(self) -> str:
        """The name of this revision; the nonce makes it one that no other ever has."""
        return f"{self.serial}-{self.encode()[:32].decode()}"


def _message(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise Corrupt(f"{where}: expected text")
    return value


def _tree(value: Any, where: str) -> dict[str, Digest]:
    if not isinstance(value, dict):
        raise Corrupt(f"{where}: expected sums by name")
    return {_name(name, where): _digest(told, where) for name, told in value.items()}


def _name(name: str, where: str) -> str:
    if problem := name_problem(name):
        raise Corrupt(f"{where}: {problem}")
    return name


def _digest(value: Any, where: str) -> Digest:
    """The sum is the name of a file, and so must be nothing else."""
    if not isinstance(value, list) or len(value) != 2:
        raise Corrupt(f"{where}: expected a sum and a size")
    return Digest(_SHA256(value[0], where), _SIZE(value[1], where))


_SHA256 = plain.text(r"[0-9a-f]{64}", "64 lower-case hex digits")
_SIZE = plain.integer()
_READERS: dict[str, plain.Reader[Any]] = {
    "serial": plain.integer(1, 10**12 - 1),
    "previous": plain.optional(plain.text(REVISION, "a revision")),
    "nonce": plain.text(r"[0-9a-f]{32}", "32 lower-case hex digits"),
    "message": _message,
    "tree": _tree,
}
