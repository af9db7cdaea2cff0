"""One repository: branches of commits, a compare-and-swap, squashing.

Every method is atomic. As on the Hub a new repository has a first commit with a
``.gitattributes``, and a revision that was squashed away is gone at once.
"""

import fnmatch
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock

from speedtronic.testing.hub.disk import Disk, Settings
from speedtronic.testing.hub.messages import (
    Refused,
    no_entry,
    no_revision,
    repository_busy,
    stale_parent,
)
from speedtronic.testing.hub.quota import Limits
from speedtronic.testing.hub.storage import Storage
from speedtronic.testing.hub.trees import changed, tree_oid
from speedtronic.testing.hub.values import Commit, File

MAIN = "main"
_LFS_PATTERNS = (
    "*.7z *.arrow *.bin *.bz2 *.ckpt *.ftz *.gz *.h5 *.joblib *.mlmodel *.model"
    " *.msgpack *.npy *.npz *.onnx *.ot *.parquet *.pb *.pickle *.pkl *.pt *.pth"
    " *.rar *.safetensors *.tar *.tflite *.tgz *.wasm *.xz *.zip *.zst *tfevents*"
).split()
_ATTRIBUTES = "".join(
    f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in _LFS_PATTERNS
).encode()
_HEADS = 16  # of a branch, remembered for those that lag behind


class Repository:
    """See the module; ``name`` is ``owner/name``.

    ``settings.private``, ``.gated`` and ``.disabled`` may be changed at any time.
    """

    def __init__(
        self,
        name: str,
        folder: Path | None,
        limits: Limits,
        now: Callable[[], float],
        *,
        private: bool = True,
    ) -> None:
        self.name = name
        self.lock = RLock()
        self._writing = Lock()
        self._limits = limits
        self._now = now
        self._disk = Disk(folder)
        found = self._disk.load()
        self.settings = found[0] if found else Settings(private, now())
        self._commits: dict[str, Commit] = found[1] if found else {}
        self.storage = Storage(folder, self.settings, limits, now, self.lock)
        self._heads: dict[str, deque[Commit]] = {}
        if found:
            for branch in self.settings.branches:
                self._remember(branch)
        else:
            self._land(
                MAIN, None, {".gitattributes": self.storage.regular(_ATTRIBUTES)}
            )

    # -- reading ---------------------------------------------------------------

    @property
    def head(self) -> str:
        """The commit that ``main`` is at."""
        return self.settings.branches[MAIN]

    @property
    def history(self) -> list[Commit]:
        """The commits of ``main``, newest first."""
        return self.line(MAIN)

    def at(self, revision: str, back: int = 0) -> Commit:
        """The commit that a branch, a tag or a whole commit id names.

        Args:
            revision: the name.
            back: for a branch: answer the head of that many changes ago.

        Raises:
            Refused: 404, there is none, or it was squashed.
        """
        with self.lock:
            if back and revision in self._heads:
                heads = self._heads[revision]
                return heads[max(0, len(heads) - 1 - back)]
            settings = self.settings
            name = settings.branches.get(revision) or settings.tags.get(revision)
            commit = self._commits.get(name or revision)
            if commit is None:
                raise no_revision(revision)
            return commit

    def line(self, revision: str, back: int = 0) -> list[Commit]:
        """The commits from a revision to the first, newest first."""
        with self.lock:
            commit: Commit | None = self.at(revision, back)
            found = []
            while commit is not None:
                found.append(commit)
                commit = self._commits.get(commit.parent or "")
            return found

    def files(self, revision: str = MAIN) -> Mapping[str, File]:
        """Every file of a revision, by name."""
        return self.at(revision).files

    def read(self, name: str, revision: str = MAIN) -> bytes:
        """The content of one file.

        Raises:
            Refused: 404, no such revision or file.
        """
        return bytes(self.content(self.at(revision), name))

    def content(self, commit: Commit, name: str) -> memoryview:
        """The content of one file of a commit, without a copy of it."""
        try:
            return self.storage.blobs.view(commit.files[name].sha256)
        except KeyError:
            raise no_entry(name, commit.id) from None

    def goes_to_lfs(self, name: str, size: int, commit: Commit) -> bool:
        """Whether a file is large: by the ``.gitattributes`` there, or by its size."""
        if size > self._limits.regular_bytes:
            return True
        if ".gitattributes" not in commit.files:
            return False
        lines = bytes(self.content(commit, ".gitattributes")).decode().splitlines()
        patterns = [line.split()[0] for line in lines if "filter=lfs" in line]
        last = name.rpartition("/")[2]
        return any(fnmatch.fnmatchcase(last, pattern) for pattern in patterns)

    # -- writing ---------------------------------------------------------------

    def write(
        self,
        files: Mapping[str, bytes | None],
        title: str = "a commit from within",
        *,
        branch: str = MAIN,
    ) -> str:
        """Commit small files without the network; None deletes. Returns the id."""
        with self.lock:
            adds = {
                name: self.storage.regular(content)
                for name, content in files.items()
                if content is not None
            }
            deletes = [name for name, content in files.items() if content is None]
            return self.commit(branch, adds, deletes, title=title).id

    def commit(
        self,
        branch: str,
        adds: Mapping[str, File],
        deletes: Iterable[str] = (),
        *,
        parent: str | None = None,
        title: str,
        message: str = "",
        user: str = "emulator",
    ) -> Commit:
        """Move a branch to a new commit, if its head is ``parent`` or that is None.

        Args:
            branch: where.
            adds: new files by name.
            deletes: names of files; that of a folder ends in a slash.
            parent: a commit id, or at least its first five characters.
            title: the first line of the message.
            message: the rest of it.
            user: who.

        Raises:
            Refused: 412 another head; 404 no such branch, or nothing to delete; 400
                a name that cannot be, or too many files in a folder.
        """
        with self.lock:
            head = self._branch(branch)
            if parent is not None and not head.id.startswith(parent.lower()):
                raise stale_parent()
            most = self._limits.folder_files
            files = changed(head.files, adds, deletes, folder_files=most)
            return self._land(branch, head, files, title, message, user)

    def squash(self, branch: str = MAIN, title: str = "a squash from within") -> str:
        """Make the head of a branch its only commit; returns the new one's id.

        Commits that another branch or a tag leads to are kept.
        """
        with self.lock:
            head = self._branch(branch)
            made = self._land(branch, None, head.files, title, user=head.user)
            self._collect()
            return made.id

    def point(self, kind: str, name: str, revision: str | None) -> None:
        """Set or drop (None) a branch or a tag; ``kind`` is ``branches`` or ``tags``.

        Raises:
            Refused: 409 it is there; 404 nothing to point at or to drop; 403 ``main``.
        """
        with self.lock:
            places: dict[str, str] = getattr(self.settings, kind)
            if revision is not None:
                if name in places:
                    raise Refused(409, f"Reference already exists: {name}")
                places[name] = self.at(revision).id
                if kind == "branches":
                    self._remember(name)
            elif name not in places:
                raise no_revision(name)
            elif (kind, name) == ("branches", MAIN):
                raise Refused(403, "The default branch cannot be deleted")
            else:
                del places[name]
                self._heads.pop(name, None)
                self._collect()
            self.save()

    def forget(self, sums: set[str], *, rewrite: bool) -> None:
        """Delete large files for good; with ``rewrite`` also from every commit.

        A commit that is rewritten and all after it have new ids.
        """
        with self.lock:
            self.storage.delete(sums)
            if rewrite:
                for branch in self.settings.branches:
                    self._rewrite(branch, sums)
                self._collect()
            self.save()

    def save(self) -> None:
        """Write what changes to the disk, if there is one."""
        with self.lock:
            self._disk.save(self.settings)

    def remove(self) -> None:
        """Leave nothing behind on the disk."""
        self._disk.remove()

    @contextmanager
    def locked(self, wait: Callable[[float], object]) -> Iterator[None]:
        """Around a client's commit: it takes its time, if `Limits` says so.

        Raises:
            Refused: 409, another one is under way.
        """
        lasting_s = self._limits.commit_lock_s
        if lasting_s is None:
            yield
            return
        if not self._writing.acquire(blocking=False):
            raise repository_busy()
        try:
            wait(lasting_s)
            yield
        finally:
            self._writing.release()

    # -- inside ----------------------------------------------------------------

    def _branch(self, name: str) -> Commit:
        if name not in self.settings.branches:
            raise no_revision(name)
        return self._commits[self.settings.branches[name]]

    def _land(
        self,
        branch: str,
        parent: Commit | None,
        files: Mapping[str, File],
        title: str = "initial commit",
        message: str = "",
        user: str = "emulator",
    ) -> Commit:
        self.settings.made += 1
        before = parent.id if parent else None
        # The number makes ids unique for ever, also after a squash to the same files.
        text = f"{self.name}\0{self.settings.made}\0{before}\0{tree_oid(files)}"
        name = hashlib.sha1(text.encode()).hexdigest()
        made = Commit(name, before, title, message, self._now(), user, files)
        self._commits[name] = made
        self._disk.save_commit(made)
        self.settings.branches[branch] = name
        self._remember(branch)
        self.save()
        return made

    def _remember(self, branch: str) -> None:
        heads = self._heads.setdefault(branch, deque(maxlen=_HEADS))
        heads.append(self._commits[self.settings.branches[branch]])

    def _rewrite(self, branch: str, sums: set[str]) -> None:
        parent: Commit | None = None
        touched = False
        for old in reversed(self.line(branch)):
            files = {n: f for n, f in old.files.items() if f.sha256 not in sums}
            touched = touched or len(files) < len(old.files)
            if touched:
                said = old.title, old.message, old.user
                parent = self._land(branch, parent, files, *said)
            else:
                parent = old

    def _collect(self) -> None:
        """Drop the commits that nothing leads to, and what only they held."""
        names = {*self.settings.branches.values(), *self.settings.tags.values()}
        kept = {commit.id: commit for name in names for commit in self.line(name)}
        live = {file.sha256 for c in kept.values() for file in c.files.values()}
        held = set()
        for name in self._commits.keys() - kept.keys():
            held |= {file.sha256 for file in self._commits[name].files.values()}
            self._disk.drop_commit(name)
        self._commits = kept
        self.storage.release(held - live)
        self.save()
