"""One revision of a directory lane, as its log holds it."""

import hashlib
import json

import attrs

from speedtronic.pure.blobname import check_name
from speedtronic.shell.atomic import Digest


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
            ValueError: the bytes are not what was written, or a name is not allowed.

        >>> entry = Entry(1, None, "f3", "first", {"a": Digest("6b86", 1)})
        >>> Entry.decode(entry.encode()) == entry
        True
        """
        total, _, body = text.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != total:
            raise ValueError("its sha256 differs")
        told = json.loads(body)
        told["tree"] = {check_name(n): Digest(*d) for n, d in told["tree"].items()}
        return Entry(**told)

    @property
    def revision(self) -> str:
        """The name of this revision; the nonce makes it one that no other ever has."""
        return f"{self.serial}-{self.encode()[:32].decode()}"
