"""What is kept of finished rounds, so that replay needs nothing but the lane.

A round that counted keeps its manifest and its deltas under ``rounds/<round>/``. Every
``keep`` rounds an anchor, a copy of weights and momentum, is kept with them, for
replay has to start somewhere. A round leaves once an anchor that is ``keep`` rounds
old makes it dispensable, so between ``keep`` and ``2 x keep`` rounds can be replayed.

An anchor is written by the commit of the round after it, as a copy of what the lane
holds at that moment, so it moves no bytes.
"""

import attrs

from speedtronic.pure.round.names import (
    MANIFEST,
    MOMENTUM,
    WEIGHTS,
    DeltaName,
    kept,
    kept_round,
)


@attrs.frozen(kw_only=True)
class Plan:
    """What the commit of a round does for replay."""

    manifest: tuple[str, ...] = ()  # further names of the new manifest
    copies: tuple[tuple[str, str], ...] = ()  # (name at the parent, new name)
    deletes: tuple[str, ...] = ()

    @property
    def adds(self) -> int:
        """How many files it writes."""
        return len(self.manifest) + len(self.copies)


def plan(
    *,
    round: int,
    accepted: tuple[DeltaName, ...],
    keep: int | None,
    listing: tuple[str, ...],
    budget: int,
) -> Plan:
    """Which files to keep with ``round``, and which old ones to delete.

    Args:
        round: the round that is about to be published.
        accepted: its deltas.
        keep: rounds to keep at least; 0 keeps nothing, None everything.
        listing: what lies under ``rounds/``.
        budget: most deletes; what is left goes with a later round.

    >>> plan(round=2, accepted=(), keep=2, listing=(), budget=9).manifest
    ('rounds/2/manifest.json',)
    >>> plan(round=3, accepted=(), keep=2, listing=(), budget=9).copies
    (('model.safetensors', 'rounds/2/model.safetensors'),
     ('outer.safetensors', 'rounds/2/outer.safetensors'))
    """
    rounds = {name: r for name in listing if (r := kept_round(name)) is not None}
    if keep == 0:
        return Plan(deletes=tuple(rounds)[:budget])
    copies = [(name.path, name.kept(round)) for name in accepted]
    before = round - 1
    if before >= 0 and (before % keep == 0 if keep else before == 0):
        copies += [(name, kept(before, name)) for name in (WEIGHTS, MOMENTUM)]
    # The oldest go first, so that what is left can always be replayed.
    old = sorted(
        (r, name) for name, r in rounds.items() if r < _oldest(rounds, round, keep)
    )
    return Plan(
        manifest=(kept(round, MANIFEST),),
        copies=tuple(copies),
        deletes=tuple(name for _, name in old[:budget]),
    )


def _oldest(rounds: dict[str, int], round: int, keep: int | None) -> int:
    """The newest anchor that is ``keep`` rounds old, where replay may start."""
    if keep is None:
        return 0
    anchors = [r for name, r in rounds.items() if name == kept(r, WEIGHTS)]
    return max((r for r in anchors if r <= round - keep), default=0)
