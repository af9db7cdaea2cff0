"""One revision of a lane, read and checked: what both machines decide on."""

import logging

from speedtronic.errors import Corrupt
from speedtronic.pure.round import names
from speedtronic.pure.round.events import Listed, View
from speedtronic.pure.round.manifest import MAX_MANIFEST_BYTES, Manifest
from speedtronic.pure.round.roster import MAX_ROSTER_BYTES, Roster
from speedtronic.shell.distributed.trust import Trust
from speedtronic.shell.lanes.base import Lane

logger = logging.getLogger(__name__)


class Looker:
    """Looks at the head of a lane; a revision that was seen is not read again.

    Args:
        lane: of the run.
        trust: whose word counts; by default that of whoever is seen first.
    """

    def __init__(self, lane: Lane, trust: Trust | None = None) -> None:
        self._lane, self._trust = lane, trust or Trust()
        self._newest = View(revision=None, manifest=None)
        self._suspected = ("", "")

    def look(self) -> View:
        """The head with its manifest and what lies beside it.

        Raises:
            LaneError: the lane does not answer, the revision is gone, or what it
                holds is no manifest that this run trusts.
        """
        revision, newest = self._lane.head(), self._newest
        if revision is not None and revision == self._suspected[0]:
            return View(revision=revision, manifest=None, spoiled=self._suspected[1])
        if revision is not None and revision == newest.revision:
            return newest
        view = View(revision=None, manifest=None)
        if revision is not None:
            view = self._read(revision)
        if not view.spoiled:
            self._newest = view
        return view

    def suspect(self, revision: str, reason: str) -> None:
        """A file that the manifest of a revision names has other bytes there."""
        self._suspected = revision, reason

    def _read(self, revision: str) -> View:
        """A revision; once a run is known, what is no manifest of it is an answer."""
        try:
            return read_view(self._lane, revision, self._trust)
        except Corrupt as error:
            if self._newest.manifest is None:
                raise
            return View(revision=revision, manifest=None, spoiled=str(error))


def read_view(lane: Lane, revision: str, trust: Trust) -> View:
    """What a machine sees of one revision.

    Raises:
        LaneError: as `Looker.look` does.
    """
    listing = lane.names("", revision)
    manifest = proposal = None
    size = listing.get(names.MANIFEST)
    if size is not None:
        if size > MAX_MANIFEST_BYTES:
            raise Corrupt(f"{names.MANIFEST} has {size} bytes, too many to be read")
        manifest = trust.manifest(lane.read(names.MANIFEST, revision))
        size = listing.get(names.ROSTER)
        if manifest.roster and size is not None and size <= MAX_ROSTER_BYTES:
            proposal = _proposal(lane, revision, manifest, trust)
    return View(
        revision=revision,
        manifest=manifest,
        deltas=tuple(
            Listed(name, listing[name.path])
            for name in names.delta_names(tuple(listing))
        ),
        kept=tuple(name for name in listing if name.startswith(names.ROUNDS)),
        proposal=proposal,
    )


def _proposal(
    lane: Lane, revision: str, manifest: Manifest, trust: Trust
) -> Roster | None:
    """A roster that waits to be published; what is none, or not the owner's, is not."""
    try:
        return trust.proposal(lane.read(names.ROSTER, revision), manifest)
    except Corrupt as error:
        logger.warning("%s; it is left alone", error)
        return None
