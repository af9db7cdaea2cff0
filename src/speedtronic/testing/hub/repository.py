"""One repository: branches of commits, a compare-and-swap, squashing, storage.

Every method is atomic. As on the Hub a new repository has a first commit with a
``.gitattributes``, and what is deleted from a branch stays in the storage until the
history is squashed; large files stay for `Limits.squash_grace_s` longer.
"""

import fnmatch
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import RLock

import attrs

from speedtronic.testing.hub.blobs import Blobs
from speedtronic.testing.hub.disk import Disk, LfsObject, Settings
from speedtronic.testing.hub.messages import (
    Refused,
    no_entry,
    no_revision,
    stale_parent,
    storage_full,
)
from speedtronic.testing.hub.quota import Limits
from speedtronic.testing.hub.values import (
    Commit,
    File,
    folders,
    lfs_file,
    regular_file,
    tree_oid,
)

MAIN = "main"
LFS_PATTERNS = (
    "*.7z *.arrow *.bin *.bz2 *.ckpt *.ftz *.gz *.h5 *.joblib *.mlmodel *.model"
    " *.msgpack *.npy *.npz *.onnx *.ot *.parquet *.pb *.pickle *.pkl *.pt *.pth"
    " *.rar *.safetensors *.tar *.tflite *.tgz *.wasm *.xz *.zip *.zst *tfevents*"
).split()
_ATTRIBUTES = "".join(
    f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in LFS_PATTERNS
).encode()
_HEADS = 16  # of a branch, remembered for those that lag behind


class Repository:
    """See the module; ``name`` is ``owner/name``."""

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
        self._limits = limits
        self._now = now
        self._disk = Disk(folder)
        self.blobs = Blobs(None if folder is None else folder / "blobs")
        found = self._disk.load()
        self._commits: dict[str, Commit] = found[1] if found else {}
        self.settings = found[0] if found else Settings(private, now())
        self._heads: dict[str, deque[Commit]] = {}
        if not found:
            self.write({".gitattributes": _ATTRIBUTES}, "initial commit")
        for branch in self.settings.branches:
            self._remember(branch)

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
        commit = self.at(revision)
        return bytes(self.content(commit, name))

    def content(self, commit: Commit, name: str) -> memoryview:
        """The content of one file of a commit, without a copy of it."""
        file = commit.files.get(name)
        if file is None:
            raise no_entry(name, commit.id)
        try:
            return self.blobs.view(file.sha256)
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
        title: str = "a commit",
        *,
        branch: str = MAIN,
        user: str = "emulator",
    ) -> str:
        """Commit from within, without the network; None deletes. Returns the id."""
        adds = {}
        for name, content in files.items():
            if content is not None:
                adds[name] = self.regular(content)
        deletes = [name for name, content in files.items() if content is None]
        return self.commit(branch, adds, deletes, title=title, user=user).id

    def commit(
        self,
        branch: str,
        adds: Mapping[str, File],
        deletes: Iterable[str] = (),
        *,
        parent: str | None = None,
        title: str,
        message: str = "",
        user: str,
    ) -> Commit:
        """Move a branch to a new commit, if its head is ``parent`` or that is None.

        Args:
            branch: it must exist, but for the first commit.
            adds: new files by name.
            deletes: names of files; a folder ends in a slash.
            parent: a commit id, or at least its first five characters.
            title: the first line of the message.
            message: the rest of it.
            user: who.

        Raises:
            Refused: 412 another head; 404 no such branch, or nothing to delete; 400
                a name that cannot be, or too many files in a folder.
        """
        with self.lock:
            head = self.at(branch) if self._commits else None
            if head and branch not in self.settings.branches:
                raise no_revision(branch)
            if head and parent is not None and not head.id.startswith(parent.lower()):
                raise stale_parent()
            files = _without(head.files if head else {}, deletes)
            files.update(adds)
            self._check(files)
            self.settings.made += 1
            made = Commit(
                _commit_id(self.name, self.settings.made, head, files, title),
                head.id if head else None,
                title,
                message,
                self._now(),
                user,
                dict(sorted(files.items())),
            )
            self._land(branch, made)
            return made

    def squash(self, branch: str = MAIN, title: str = "squash") -> str:
        """Make the head of a branch its only commit; the others vanish.

        Commits that another branch or a tag leads to are kept.
        """
        with self.lock:
            head = self.at(branch)
            if branch not in self.settings.branches:
                raise no_revision(branch)
            self.settings.made += 1
            number = self.settings.made
            made = attrs.evolve(
                head,
                id=_commit_id(self.name, number, None, head.files, title),
                parent=None,
                title=title,
                message="",
                date=self._now(),
            )
            self._land(branch, made)
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

    def save(self) -> None:
        """Write what changes to the disk, if there is one."""
        self._disk.save(self.settings)

    def regular(self, content: bytes) -> File:
        """A new file, ready to be committed."""
        self.blobs.add([content])
        return regular_file(content)

    def remove(self) -> None:
        """Leave nothing behind on the disk."""
        self._disk.remove()

    # -- large files -----------------------------------------------------------

    def store(self, sha256: str, chunks: Iterable[bytes]) -> None:
        """Take in a large file.

        Raises:
            Refused: 400, its content is another; 403, the storage is full.
        """
        stored = self.blobs.add(chunks)
        if stored.sha256 != sha256:
            raise Refused(400, f"expected sha256 {sha256}, found {stored.sha256}")
        with self.lock:
            if sha256 not in self.blobs:  # an older copy of it was just dropped
                raise Refused(500, "Internal Error")
            self.check_storage(stored.size)
            held = LfsObject(stored.size, self._now())
            self.settings.lfs.setdefault(sha256, held)
            self.save()

    def check_storage(self, more: int) -> None:
        """Refuse ``more`` bytes of large files if they would not fit."""
        most = self._limits.storage_bytes
        if self.settings.private and most is not None and self.used + more > most:
            raise storage_full()

    @property
    def used(self) -> int:
        """Bytes of large files, old ones included."""
        with self.lock:
            self._release()
            return sum(held.size for held in self.settings.lfs.values())

    def large_file(self, sha256: str) -> File:
        """A large file that was uploaded before.

        Raises:
            Refused: 400, it was not.
        """
        with self.lock:
            held = self.settings.lfs.get(sha256)
            if held is None or sha256 not in self.blobs:
                raise Refused(400, f"LFS object {sha256} was not uploaded")
            if held.released is not None:
                self.settings.lfs[sha256] = attrs.evolve(held, released=None)
            return lfs_file(sha256, held.size)

    def forget(self, sums: set[str], *, rewrite: bool) -> None:
        """Delete large files for good; with ``rewrite`` also from every commit."""
        with self.lock:
            for sha256 in sums & self.settings.lfs.keys():
                del self.settings.lfs[sha256]
                self.blobs.drop(sha256)
            if rewrite:
                for branch in self.settings.branches:
                    self._rewrite(branch, sums)
            self._collect()
            self.save()

    # -- inside ----------------------------------------------------------------

    def _check(self, files: Mapping[str, File]) -> None:
        counts: dict[str, set[str]] = {}
        for name in files:
            for folder in folders(name):
                if folder in files:
                    raise Refused(400, f"{folder} is a file and a folder")
            for path in (*folders(name), name):
                folder, _, last = path.rpartition("/")
                counts.setdefault(folder, set()).add(last)
        most = self._limits.folder_files
        for folder, names in counts.items():
            if len(names) > most:
                raise Refused(
                    400,
                    "Each directory in your git repo can only contain up to "
                    f"{most} files: /{folder}",
                )

    def _land(self, branch: str, commit: Commit) -> None:
        self._commits[commit.id] = commit
        self._disk.save_commit(commit)
        self.settings.branches[branch] = commit.id
        self._remember(branch)
        self.save()

    def _remember(self, branch: str) -> None:
        heads = self._heads.setdefault(branch, deque(maxlen=_HEADS))
        heads.append(self._commits[self.settings.branches[branch]])

    def _rewrite(self, branch: str, sums: set[str]) -> None:
        made: Commit | None = None
        for commit in reversed(self.line(branch)):
            files = {n: f for n, f in commit.files.items() if f.sha256 not in sums}
            if len(files) == len(commit.files) and made is None:
                continue
            self.settings.made += 1
            number = self.settings.made
            parent = made.id if made else commit.parent
            new = _commit_id(self.name, number, made, files, commit.title)
            made = attrs.evolve(commit, id=new, parent=parent, files=files)
            self._commits[new] = made
            self._disk.save_commit(made)
        if made is not None:
            self.settings.branches[branch] = made.id
            self._remember(branch)

    def _collect(self) -> None:
        """Drop the commits that nothing leads to, and what only they held."""
        names = {*self.settings.branches.values(), *self.settings.tags.values()}
        kept = {c.id: c for name in names for c in self.line(name)}
        live = {f.sha256 for c in kept.values() for f in c.files.values()}
        held = set()
        for name in self._commits.keys() - kept.keys():
            held |= {file.sha256 for file in self._commits[name].files.values()}
            self._disk.drop_commit(name)
        self._commits = kept
        for sha256 in held - live:
            large = self.settings.lfs.get(sha256)
            if large is None:
                self.blobs.drop(sha256)
            elif large.released is None:
                when = self._now() + self._limits.squash_grace_s
                self.settings.lfs[sha256] = attrs.evolve(large, released=when)
        self._release()
        self.save()

    def _release(self) -> None:
        now = self._now()
        for sha256, held in list(self.settings.lfs.items()):
            if held.released is not None and held.released <= now:
                del self.settings.lfs[sha256]
                self.blobs.drop(sha256)


def _without(files: Mapping[str, File], deletes: Iterable[str]) -> dict[str, File]:
    left = dict(files)
    for name in deletes:
        gone = [
            n
            for n in left
            if n == name or (name[-1:] == "/" and n[: len(name)] == name)
        ]
        if not gone:
            raise no_entry(name)
        for each in gone:
            del left[each]
    return left


def _commit_id(
    name: str, number: int, head: Commit | None, files: Mapping[str, File], title: str
) -> str:
    parent = head.id if head else ""
    text = f"{name}\0{number}\0{parent}\0{tree_oid(files)}\0{title}"
    return hashlib.sha1(text.encode()).hexdigest()
