"""What can be said of the files of one commit: folders, changes, listings."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from speedtronic.testing.hub.messages import Refused, no_entry
from speedtronic.testing.hub.values import File


def folders(name: str) -> Iterator[str]:
    """The folders that a name is in, from the outermost.

    >>> list(folders("a/b/c.txt"))
    ['a', 'a/b']
    """
    parts = name.split("/")
    for count in range(1, len(parts)):
        yield "/".join(parts[:count])


def tree_oid(files: Mapping[str, File]) -> str:
    """A name for a folder's content; the same for the same content."""
    listing = "".join(f"{name}\0{file.oid}\n" for name, file in sorted(files.items()))
    return hashlib.sha1(b"tree\0" + listing.encode()).hexdigest()


def changed(
    files: Mapping[str, File],
    adds: Mapping[str, File],
    deletes: Iterable[str],
    *,
    folder_files: int,
) -> dict[str, File]:
    """The files after a commit, sorted by name.

    Args:
        files: before it.
        adds: new files by name; they win over deletes.
        deletes: names of files; that of a folder ends in a slash.
        folder_files: the most names that a folder may hold.

    Raises:
        Refused: 404 nothing to delete; 400 a name is a file and a folder, or a folder
            is too full.
    """
    left = dict(files)
    for name in deletes:
        inside = [n for n in left if n.startswith(name)] if name[-1:] == "/" else []
        for each in inside or [name]:
            if left.pop(each, None) is None:
                raise no_entry(name)
    left.update(adds)
    counts: dict[str, set[str]] = {}
    for name in left:
        above = list(folders(name))
        for path in (*above, name):
            counts.setdefault(path.rpartition("/")[0], set()).add(path)
        for folder in above:
            if folder in left:
                raise Refused(400, f"{folder} is a file and a folder")
    for folder, inner in counts.items():
        if len(inner) > folder_files:
            raise Refused(
                400,
                "Each directory in your git repo can only contain up to "
                f"{folder_files} files: /{folder}",
            )
    return dict(sorted(left.items()))


def listed(
    files: Mapping[str, File], place: str, *, deep: bool
) -> tuple[list[str], list[str]]:
    """The folders and the files in the folder ``place`` (all if it is empty).

    Raises:
        Refused: 404, there is no such folder.

    >>> from speedtronic.testing.hub.values import regular_file
    >>> files = {name: regular_file(b"") for name in ("a", "b/c", "b/d/e")}
    >>> listed(files, "", deep=False), listed(files, "b", deep=True)
    ((['b'], ['a']), (['b/d'], ['b/c', 'b/d/e']))
    """
    prefix = place + "/" if place else ""
    below = [name for name in files if name.startswith(prefix)]
    if place and not below:
        raise no_entry(place)
    inner, names = set(), set()
    for name in below:
        above = [prefix + folder for folder in folders(name[len(prefix) :])]
        inner.update(above if deep else above[:1])
        if deep or not above:
            names.add(name)
    return sorted(inner), sorted(names)
