"""The lane in a model repository of the Hub.

Each revision is a commit of the branch ``main``. What lies in the repository beside
the blobs of the lane has names that are not in the grammar (``.gitattributes``, the
marker of `commit`) and is not seen through the lane; everything else is, also what
was there before.

`HubLane.head` is None as long as no lane ever committed, which the marker tells. The
Hub gives a new repository a first commit; a commit on parent None swaps that one.

Every read names a whole revision and is checked against the sums in its listing.
`trouble` says which answers are asked for again; nothing that might have been applied
is ever sent again.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from speedtronic.errors import Conflict, Corrupt, Missing, Unavailable
from speedtronic.shell.lanes.base import (
    ANY,
    Blob,
    Lane,
    Parent,
    check_commit,
    grow,
    split,
)
from speedtronic.shell.lanes.files import PIECE, replacing
from speedtronic.shell.lanes.hub import space
from speedtronic.shell.lanes.hub.cache import Cache
from speedtronic.shell.lanes.hub.client import Client, Large
from speedtronic.shell.lanes.hub.commit import Commits, Draft, draft
from speedtronic.shell.lanes.hub.download import Downloads
from speedtronic.shell.lanes.hub.heads import Heads
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.shell.lanes.hub.staging import Staged, Staging
from speedtronic.shell.lanes.hub.tree import Entry, Tree, Trees
from speedtronic.shell.lanes.hub.trouble import Failed, Trouble

_RACES = 6  # that a commit on whatever the head is may lose


class HubLane:
    """The lane in ``repository``; safe between threads, processes and machines.

    Nothing is asked of the Hub before the first call, and a repository that is not
    there is Denied then: an outage is Unavailable.

    Args:
        repository: ``OWNER/NAME``, made before; see `preflight.check`.
        options: token, cache, limits.
    """

    def __init__(self, repository: str, options: HubOptions | None = None) -> None:
        self._where = f"lane hub:{repository}"
        self._options = options or HubOptions()
        self._client = Client(repository, self._options)
        self._heads = Heads(self._client)
        self._trees = Trees(self._client)
        cache = Cache(self._options.cache, self._options.cache_bytes)
        self._downloads = Downloads(self._client, cache)
        self._staging = Staging(self._client)
        self._commits = Commits(self._client)

    def __repr__(self) -> str:
        return f"HubLane({self._client.repository!r})"

    def head(self) -> str | None:
        """See `Lane`."""
        with self._explained("its head"):
            head = self._client.patiently(self._heads.newest)
        return head.revision if head.marked else None

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        """See `Lane`."""
        with self._explained(f"the names in {revision!r}", revision):
            tree = self._tree(revision)
        return {n: e.size for n, e in tree.entries.items() if n.startswith(prefix)}

    def read(self, name: str, revision: str) -> bytes:
        """See `Lane`."""
        with self._explained(f"{name!r} in {revision!r}", revision):
            entry = self._entry(name, revision)
            with self._downloads.opened(name, revision, entry) as file:
                return file.read()

    def fetch(self, name: str, revision: str, path: Path) -> str:
        """See `Lane`."""
        with self._explained(f"{name!r} in {revision!r}", revision):
            entry = self._entry(name, revision)
            with (
                self._downloads.opened(name, revision, entry) as source,
                replacing(path) as target,
            ):
                while piece := source.read(PIECE):
                    target.write(piece)
                return target.digest().sha256

    def prepare(self, adds: Mapping[str, Blob]) -> None:
        """Upload what a commit is going to add, so that the commit itself is short.

        Doing it before a look keeps the time small in which other commits can come
        in between. It is never needed.

        Raises:
            Unavailable, Denied, StorageError: as ``commit``.
        """
        with self._explained("an upload"):
            self._staging.stage(split(adds)[0])

    def commit(
        self,
        adds: Mapping[str, Blob],
        deletes: Collection[str] = (),
        *,
        parent: Parent,
        message: str = "",
    ) -> str:
        """See `Lane`.

        With ANY, names that collide are noticed only among what was there a moment
        before, and the Hub, which has no such rule, is not asked. A copy is exact: with
        ANY it is a compare-and-swap that is tried again while the head moves.
        """
        check_commit(adds, deletes)
        outside, copies = split(adds)
        exact = parent is not ANY or bool(copies)
        with self._explained("a commit"):
            for tried in range(_RACES):
                basis = self._basis(parent)
                new, old = dict.fromkeys(outside), dict.fromkeys(basis.entries)
                grow(self._where, old, new, copies, deletes)
                staged = self._staging.stage(outside)
                staged |= {n: self._copied(s, basis) for n, s in copies.items()}
                swap = basis.revision if exact else None
                try:
                    revision = self._send(draft(staged, deletes, swap, message))
                except Failed as failed:
                    moved = failed.trouble.kind == "conflict"
                    if not (moved and parent is ANY) or tried == _RACES - 1:
                        raise
                    self._client.back_off(tried)
                    continue
                self._heads.committed(revision, basis.revision)
                return revision
        raise AssertionError("the last race is won or lost")

    def squash(self, message: str = "squash") -> str:
        """Make the head the only commit of the history; return the new head.

        Whether the Hub does this in one step with commits is not known: do it in a
        quiet moment, and look afterwards whether the manifest is the one that was
        there. Older revisions are Missing from then on.

        Raises:
            Unavailable: it may have been done: look.
            Denied: not permitted.
        """
        with self._explained("squashing"):
            self._charge()
            space.squash(self._client, message)
            self._trees.forget()
            self._staging.forget()
            return self._client.patiently(self._heads.listed)

    def release(self, *, kept_s: float = 24 * 3600.0) -> int:
        """Delete large files for good that the head does not name; return the bytes.

        Only after a `squash`: older revisions lose theirs.

        Args:
            kept_s: what was uploaded so many seconds before the newest upload, or
                later, stays, because it may be part of a commit that is under way.

        Raises:
            Unavailable: some may be deleted.
            Denied: not permitted.
        """
        with self._explained("releasing storage"):
            tree = self._newest()
            self._staging.forget()
            return space.release(self._client, tree, kept_s)

    @contextmanager
    def _explained(self, what: str, revision: str | None = None) -> Iterator[None]:
        try:
            yield
        except Failed as failed:
            if failed.trouble.kind == "revision" and revision:
                self._heads.doubt(revision)  # a head that lags would lead there again
            raise failed.trouble.error(f"{self._where}: {what}") from None
        except Corrupt as error:
            raise Corrupt(f"{self._where}: {error}") from None

    def _tree(self, revision: str) -> Tree:
        return self._client.patiently(lambda: self._trees.at(revision))

    def _entry(self, name: str, revision: str) -> Entry:
        entry = self._tree(revision).entries.get(name)
        if entry is None:
            raise Missing(f"{self._where}: no {name!r} in revision {revision!r}")
        return entry

    def _newest(self) -> Tree:
        """What the head holds, however often it moves meanwhile."""

        def look() -> Tree:
            head = self._heads.newest()
            try:
                return self._trees.at(head.revision)
            except Failed as failed:
                if failed.trouble.kind != "revision":
                    raise
                self._heads.doubt(head.revision)
                text = "the history was squashed meanwhile"
                raise Failed(Trouble("transient", text)) from None

        return self._client.patiently(look)

    def _basis(self, parent: Parent) -> Tree:
        """What a commit is decided on; with a parent, exactly that revision."""
        if parent is ANY or parent is None:
            tree = self._newest()
            if parent is None and tree.marked:
                raise self._moved(f"head is {tree.revision!r}", parent)
            return tree
        if self._heads.is_superseded(parent):
            raise self._moved("a newer head was seen", parent)
        try:
            tree = self._tree(parent)
        except Failed as failed:
            if failed.trouble.kind != "revision":
                raise
            raise self._moved("there is no such revision", parent) from None
        if not tree.marked:
            raise self._moved("no lane made that revision", parent)
        return tree

    def _moved(self, found: str, parent: Parent) -> Conflict:
        return Conflict(f"{self._where}: {found}, expected {parent!r}")

    def _copied(self, source: str, basis: Tree) -> Staged:
        entry = basis.entries[source]
        if entry.large:
            return Large(entry.oid, entry.size)
        try:
            with self._downloads.opened(source, basis.revision, entry) as file:
                return file.read()
        except Corrupt as error:
            text = f"to be copied, {error}; nothing was written"
            raise Failed(Trouble("unsent", text)) from None

    def _charge(self) -> None:
        limiter = self._options.limiter
        wait_s = limiter.take() if limiter else 0.0
        if wait_s:
            raise Unavailable(
                f"{self._where}: the budget of commits is used up, the next is due in"
                f" {wait_s:.0f} s; nothing was written",
                retry_after_s=wait_s,
            )

    def _send(self, commit: Draft) -> str:
        self._charge()
        try:
            return self._commits.send(commit)
        except Failed as failed:
            kind = failed.trouble.kind
            if kind != "transient" and self._options.limiter:
                self._options.limiter.give_back()
            if kind == "conflict" and commit.parent is not None:
                self._heads.doubt(commit.parent)
            if kind == "denied":
                self._staging.forget()  # perhaps it refers to what is gone
            raise


_: type[Lane] = HubLane
