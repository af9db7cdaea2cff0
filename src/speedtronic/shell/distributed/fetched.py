"""Files fetched from a lane into a folder of one's own, checked against their sums."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speedtronic.errors import Corrupt, Damaged
from speedtronic.pure.round.manifest import File
from speedtronic.shell.lanes.base import Lane


@contextmanager
def fetched(lane: Lane, name: str, revision: str, path: Path) -> Iterator[str]:
    """A blob as the file ``path`` while this is entered; gives its sha256.

    Raises:
        LaneError: it cannot be had.
        Corrupt: what came is no whole file of its kind.
    """
    try:
        yield lane.fetch(name, revision, path)
    except Damaged as error:
        raise Corrupt(f"{name}: {error}") from error
    finally:
        path.unlink(missing_ok=True)


def fetch_checked(
    lane: Lane, file: File, revision: str, path: Path, most: int | None = None
) -> None:
    """Fetch a file that a manifest names.

    Args:
        lane: of the run.
        file: what the manifest says of it.
        revision: that the manifest was read at.
        path: where to put it.
        most: bytes that such a file can have, if the reader knows the model.

    Raises:
        LaneError: it cannot be had.
        Corrupt: it has other bytes than the manifest says; it is not kept.
    """
    size = lane.names(file.name, revision).get(file.name)
    if size != file.bytes or (most is not None and size > most):
        # What is not what it should be is not even downloaded.
        raise Corrupt(
            f"{file.name}: the manifest says {file.bytes} bytes, found {size}"
            f"{'' if most is None else f'; the model has at most {most}'}"
        )
    found = lane.fetch(file.name, revision, path)
    if found != file.sha256:
        path.unlink(missing_ok=True)
        raise Corrupt(
            f"{file.name}: the manifest says sha256 {file.sha256}, found {found}"
        )
