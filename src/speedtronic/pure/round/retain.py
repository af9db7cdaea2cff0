"""What is kept of finished rounds, so that replay needs nothing but the lane.

A round that counted keeps its manifest and its deltas under ``rounds/<round>/``. Every
``keep`` rounds an anchor, a copy of weights and momentum, is kept with them, for
replay has to start somewhere. A round leaves once an anchor that is ``keep`` rounds
old makes it dispensable, so between ``keep`` and ``2 x keep`` rounds can be replayed.
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

    copies: tuple[tuple[str, str], ...] = ()  # (name, second name)
    deletes: tuple[str, ...] = ()


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

    >>> plan(round=2, accepted=(), keep=2, listing=(), budget=9).copies
    (('manifest.json', 'rounds/2/manifest.json'),
     ('model.safetensors', 'rounds/2/model.safetensors'),
     ('outer.safetensors', 'rounds/2/outer.safetensors'))
    """
    if keep == 0:
        return Plan(deletes=tuple(_ours(listing))[:budget])
    copies = [(MANIFEST, kept(round, MANIFEST))]
    copies += [(name.path, name.kept(round)) for name in accepted]
    if round % keep == 0 if keep else round == 0:
        copies += [(name, kept(round, name)) for name in (WEIGHTS, MOMENTUM)]
    if keep is None:
        return Plan(copies=tuple(copies))
    anchors = [
        r
        for name, r in _ours(listing).items()
        if name == kept(r, WEIGHTS) and r <= round - keep
    ]
    oldest = max(anchors, default=0)
    old = [name for name, r in _ours(listing).items() if r < oldest]
    # The oldest go first, so that what is left can always be replayed.
    old.sort(key=lambda name: (kept_round(name) or 0, name))
    return Plan(copies=tuple(copies), deletes=tuple(old[:budget]))


def _ours(listing: tuple[str, ...]) -> dict[str, int]:
    rounds = {name: kept_round(name) for name in listing}
    return {name: r for name, r in rounds.items() if r is not None}
