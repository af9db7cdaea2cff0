"""The names that blobs on a lane may have, one strict grammar for every source.

A name is parts joined by ``/``. A part is made of ASCII letters, digits, ``.``,
``_`` and ``-``, begins with a letter or a digit, does not end with a dot, and is no
device name of Windows. So a name can neither leave its root nor mean two files on
two systems. It does not matter where a name comes from: a manifest, a listing, a
config, the environment and a command line are all checked here.

Absent on purpose: quoting and normalising. A name that does not fit is refused.
"""

import re
from collections.abc import Iterable

MAX_NAME = 240  # characters of a whole name
MAX_PART = 120  # characters between two slashes
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


def name_problem(name: object) -> str | None:
    """What is wrong with ``name`` as the name of a blob; None when nothing is.

    >>> name_problem("nodes/a/b-00012-4f.safetensors")
    >>> name_problem("nodes/../run.json")
    "name 'nodes/../run.json': part '..' must begin with a letter or a digit"
    """
    if not isinstance(name, str):
        return f"name {name!r}: expected text, found {type(name).__name__}"
    if len(name) > MAX_NAME:
        start = name[:32]
        return f"name {start!r}...: {len(name)} characters, at most {MAX_NAME} allowed"
    for part in name.split("/"):
        problem = _part_problem(part)
        if problem:
            return f"name {name!r}: {problem}"
    return None


def check_name(name: str) -> str:
    """Return ``name``.

    Raises:
        ValueError: ``name`` is not in the grammar.

    >>> check_name("run.json")
    'run.json'
    >>> check_name("/etc/passwd")
    Traceback (most recent call last):
    ValueError: name '/etc/passwd': a part is empty
    """
    problem = name_problem(name)
    if problem:
        raise ValueError(problem)
    return name


def collision(names: Iterable[str]) -> str | None:
    """Why ``names`` cannot all be files of one folder tree; None when they can.

    Two spellings of one name would be one file where case does not count, and a
    name cannot be both a file and a folder.

    >>> collision(["nodes/a", "Nodes/b"])
    "'nodes' and 'Nodes' differ only in case"
    >>> collision(["nodes", "nodes/b"])
    "'nodes' is both a file and a folder"
    """
    spelled: dict[str, str] = {}
    folders: set[str] = set()
    files: set[str] = set()
    for name in names:
        parts = name.split("/")
        paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
        for path in paths:
            other = spelled.setdefault(path.lower(), path)
            if other != path:
                return f"{other!r} and {path!r} differ only in case"
        files.add(name)
        folders.update(paths[:-1])
    both = sorted(files & folders)
    return f"{both[0]!r} is both a file and a folder" if both else None


def obstacles(there: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """Names that have to go before others can be files of the same folder tree.

    >>> obstacles(["nodes/a/b", "NODES/x", "other"], ["nodes/a", "nodes/c"])
    ['NODES/x', 'nodes/a/b']
    """
    spelled: dict[str, str] = {}
    files, folders = set(wanted), set[str]()
    for name in files:
        parts = name.split("/")
        paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
        folders.update(paths[:-1])
        spelled |= {path.lower(): path for path in paths}
    found = []
    for name in there:
        parts = name.split("/")
        paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
        misspelled = any(spelled.get(p.lower(), p) != p for p in paths)
        if misspelled or name in folders or files & set(paths[:-1]):
            found.append(name)
    return sorted(found)


def _part_problem(part: str) -> str | None:
    if not part:
        return "a part is empty"
    if len(part) > MAX_PART:
        return f"a part has {len(part)} characters, at most {MAX_PART} allowed"
    if not (part[0].isascii() and part[0].isalnum()):
        return f"part {part!r} must begin with a letter or a digit"
    if not _PART.fullmatch(part):
        return f"part {part!r} may hold only letters, digits, '.', '_' and '-'"
    if part.endswith("."):
        return f"part {part!r} must not end with a dot"
    if _DEVICE.fullmatch(part.lower()):
        return f"part {part!r} is a device name on some systems"
    return None
