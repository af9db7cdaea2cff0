"""Whose word counts: manifests and deltas checked against the roster of their run.

In a signed run a manifest is believed only if a master of its roster signed it, and the
roster only if its owner did. The owner is known from the first sight of the run, or
told by the user, and never changes; a roster that is older than one seen is refused.
"""

from collections.abc import Callable

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.round import header as headers
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.pure.round import roster as rosters
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.roster import Roster
from speedtronic.shell.delta_file import DeltaFile
from speedtronic.shell.distributed.files import SIGNATURE, SIGNER
from speedtronic.shell.keys import Key, verifies


@attrs.define
class Trust:
    """What a reader of a run has come to know of its owner; it learns as it reads."""

    owner: str | None = None  # None: whoever the first manifest names
    version: int = 0  # the newest roster seen
    signed: bool = False  # refuse a run that is open
    open_run: str | None = None  # a run that has no owner, as this node knows
    run: str | None = None  # that was seen
    learned: Callable[[str], None] = lambda run: None  # called with a newer roster

    def manifest(
        self, data: bytes, what: str = names.MANIFEST, *, kept: bool = False
    ) -> Manifest:
        """Read a manifest, the newest one or, if ``kept``, one of a finished round.

        Raises:
            Corrupt: it is none, or nobody signed it whom this run trusts.
        """
        manifest, signature = manifests.parse_signed(data, what)
        roster = manifest.roster
        if roster is None:
            if self.owner or self.signed:
                raise Corrupt(f"{what}: expected a signed run, found no roster")
            self.run = manifest.run
            return manifest
        if manifest.run == self.open_run:
            raise Corrupt(f"{what}: run {manifest.run} was open, here it has an owner")
        if self.owner not in (None, roster.owner):
            raise Corrupt(
                f"{what}: expected the run of owner {self.owner}, found {roster.owner}"
            )
        if roster.version < self.version and not kept:
            raise Corrupt(
                f"{what}: the roster went back from version {self.version} to "
                f"{roster.version}"
            )
        check_roster(roster, what)
        signer = roster.member(manifest.lease.node)
        text = manifests.signed_text(manifest)
        if signer is None or not verifies(signer.key, signature, text):
            raise Corrupt(
                f"{what}: it is not signed by the key of node {manifest.lease.node}"
            )
        self.owner, self.run = roster.owner, manifest.run
        if roster.version > self.version:
            self.version = roster.version
            self.learned(manifest.run)
        return manifest

    def proposal(self, data: bytes, manifest: Manifest) -> Roster | None:
        """A newer roster that the run's owner asks for; None if it is not that.

        Raises:
            Corrupt: it is no roster, or not the owner's.
        """
        roster = rosters.parse(data)
        check_roster(roster, names.ROSTER)
        return roster if rosters.newer(manifest.roster, roster) else None


def check_roster(roster: Roster, what: str) -> None:
    """See that the owner signed it.

    Raises:
        Corrupt: somebody else did, or nobody.
    """
    if not verifies(roster.owner, roster.signature, rosters.signed_text(roster)):
        raise Corrupt(f"{what}: the roster is not signed by its owner {roster.owner}")


def signed_roster(roster: Roster, owner: Key) -> Roster:
    """The same with the owner's signature."""
    text = rosters.signed_text(roster)
    return attrs.evolve(roster, signature=owner.sign(text))


def signed_manifest(manifest: Manifest, key: Key | None) -> bytes:
    """What is published of a manifest, signed if its run is."""
    if manifest.roster is None:
        return manifests.encode(manifest)
    if key is None:
        raise Corrupt("the run is signed, and this node has no key")
    return manifests.encode(manifest, key.sign(manifests.signed_text(manifest)))


def delta_text(header: Header) -> bytes:
    """What is signed of a delta; its header holds the sum of its payload."""
    return b"speedtronic delta\n" + headers.encode(header)


def signature_of(header: Header, key: Key | None) -> dict[str, str]:
    """The metadata that signs a delta; nothing without a key."""
    if key is None:
        return {}
    return {SIGNATURE: key.sign(delta_text(header)), SIGNER: key.public}


def signer_of(file: DeltaFile, header: Header) -> str:
    """The public key whose signature a delta's file has; empty if it has none."""
    key, signature = (file.metadata.get(name, "") for name in (SIGNER, SIGNATURE))
    return key if verifies(key, signature, delta_text(header)) else ""
