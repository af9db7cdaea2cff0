"""One revision of a lane, read and checked: what both machines decide on."""

from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.pure.round.events import Listed, View
from speedtronic.shell.lanes.base import Lane


class Looker:
    """Looks at the head of a lane; a revision that was seen is not read again."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._newest = View(revision=None, manifest=None)

    def look(self) -> View:
        """The head with its manifest and what lies beside it.

        Raises:
            LaneError: the lane does not answer, the revision is gone, or what it
                holds is no manifest.
        """
        revision, newest = self._lane.head(), self._newest
        if revision is not None and revision == newest.revision:
            return newest
        view = View(revision=None, manifest=None)
        if revision is not None:
            view = read_view(self._lane, revision)
        self._newest = view
        return view


def read_view(lane: Lane, revision: str) -> View:
    """What a machine sees of one revision.

    Raises:
        LaneError: as `Looker.look` does.
    """
    listing = lane.names("", revision)
    manifest = None
    if names.MANIFEST in listing:
        manifest = manifests.parse(lane.read(names.MANIFEST, revision))
    return View(
        revision=revision,
        manifest=manifest,
        deltas=tuple(
            Listed(name, listing[name.path])
            for name in names.delta_names(tuple(listing))
        ),
        kept=tuple(name for name in listing if name.startswith(names.ROUNDS)),
    )
