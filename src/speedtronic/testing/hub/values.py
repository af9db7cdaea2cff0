"""What the Hub is made of: accounts, files and commits, as values.

A commit is an immutable mapping from names to files; what a name held at a commit
never changes. Identifiers are git's where the Hub's client computes them too (the oid
of a file); the id of a commit has git's form only.

Absent on purpose: diffs, merges, pull requests, file modes.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Literal, TypeAlias

import attrs

Role: TypeAlias = Literal["write", "read", "pull-request"]
"""``pull-request`` is the token that may only propose: every commit gets a 412."""


@attrs.frozen
class Account:
    """The bearer of a token."""

    user: str
    role: Role


@attrs.frozen
class File:
    """One file of a commit."""

    oid: str  # git's sha1: of the content, or of the pointer of a large file
    size: int  # bytes
    sha256: str  # of the content
    lfs: bool  # whether git holds a pointer only


@attrs.frozen
class Commit:
    """A revision: every file by name."""

    id: str
    parent: str | None
    title: str
    message: str
    date: float  # seconds since 1970, by the emulator's clock
    user: str
    files: Mapping[str, File]


def regular_file(content: bytes | memoryview) -> File:
    """A file whose content is in git itself.

    >>> regular_file(b"hello").oid
    'b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0'
    """
    sha256 = hashlib.sha256(content).hexdigest()
    return File(git_oid(content), len(content), sha256, lfs=False)


def lfs_file(sha256: str, size: int) -> File:
    """A file of which git holds a pointer.

    >>> lfs_file("0" * 64, 3).oid == git_oid(pointer("0" * 64, 3))
    True
    """
    return File(git_oid(pointer(sha256, size)), size, sha256, lfs=True)


def pointer(sha256: str, size: int) -> bytes:
    """The text that git holds for a large file."""
    spec = "https://git-lfs.github.com/spec/v1"
    return f"version {spec}\noid sha256:{sha256}\nsize {size}\n".encode()


def git_oid(content: bytes | memoryview) -> str:
    """What git calls a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def iso(seconds: float) -> str:
    """A time as the Hub writes it.

    >>> iso(0.25)
    '1970-01-01T00:00:00.250Z'
    """
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
