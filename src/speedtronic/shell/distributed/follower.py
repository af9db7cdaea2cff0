"""A worker's effects on a lane: fetch the newer global, send the pending delta.

Called in background threads, one call of a kind at a time. Nothing here decides.
"""

from pathlib import Path

from speedtronic.errors import Corrupt
from speedtronic.pure.blobname import obstacles
from speedtronic.pure.delta import Delta, Weights
from speedtronic.pure.round.events import Fetch
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.names import DeltaName
from speedtronic.pure.tree import check_same
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.fetched import fetch_checked, fetched
from speedtronic.shell.distributed.files import (
    most_bytes,
    read_header,
    read_weights,
    write_delta,
)
from speedtronic.shell.distributed.trust import signature_of, signer_of
from speedtronic.shell.keys import Key
from speedtronic.shell.lanes.base import ANY, Lane


class Follower:
    """Performs the effects of a `worker`.

    Args:
        lane: of the run.
        folder: for files on their way; it is this process's own.
        likes: the model, on the meta device.
        key: to sign deltas with, in a signed run.
    """

    def __init__(
        self, lane: Lane, folder: Path, likes: Weights, key: Key | None = None
    ) -> None:
        self._lane, self._folder, self._likes, self._key = lane, folder, likes, key

    def fetch(self, effect: Fetch) -> tuple[Weights | None, tuple[int, ...]]:
        """The weights that are asked for, and the cursors in the headers.

        Raises:
            LaneError: something cannot be had, or is not what it should be.
        """
        cursors = tuple(self._cursor(n, effect.revision) for n in effect.headers)
        if effect.weights is None:
            return None, cursors
        path = self._folder / "global.safetensors"
        most = most_bytes(self._likes)
        fetch_checked(self._lane, effect.weights, effect.revision, path, most)
        weights = read_weights(path)
        path.unlink()
        try:
            check_same("params", self._likes.params, weights.params)
            check_same("buffers", self._likes.buffers, weights.buffers)
        except ValueError as error:
            raise Corrupt(f"{effect.weights.name}: {error}") from error
        return weights, cursors

    def upload(self, header: Header, delta: Delta) -> None:
        """Commit a delta; the same bytes every time.

        Raises:
            LaneError: it is not there, or nobody knows.
            StorageError: its file cannot be written.
        """
        path = self._folder / f"{header.id}.safetensors"
        if not path.exists():
            self.forget()
            write_delta(path, delta, header, signature_of(header, self._key))
        name = header.name.path
        line = f"{header.node}: delta {header.seq} on round {header.base_round}"
        self._lane.commit({name: path}, self._obstacles(name), parent=ANY, message=line)

    def _obstacles(self, name: str) -> list[str]:
        """What somebody put in the way of a file, such as one named as its folder."""
        head = self._lane.head()
        return obstacles(self._lane.names("", head), [name]) if head else []

    def forget(self) -> None:
        """Remove the files of deltas that are decided."""
        for path in self._folder.glob("*.safetensors"):
            path.unlink(missing_ok=True)

    def _cursor(self, name: DeltaName, revision: str) -> int:
        path = self._folder / "header.safetensors"
        with fetched(self._lane, name.path, revision, path), open_delta(path) as file:
            header = read_header(file)
            if self._key and signer_of(file, header) != self._key.public:
                return 0  # whoever wrote that, it was not this node
            return header.cursor
