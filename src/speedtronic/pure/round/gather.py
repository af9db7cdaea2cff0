"""The deltas that a leader holds: which to download, which to forget.

A delta never changes under its name, so what was read once stays true for as long as
it is listed. Memory is bounded whatever lies on the lane; the streams that have
waited longest are read first.
"""

from collections import Counter

import attrs

from speedtronic.pure.round.admit import Broken, Facts, turn
from speedtronic.pure.round.events import Inspect, Inspected, Suspected, View
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master_state import Master, MasterStep
from speedtronic.pure.round.names import DeltaName

CANDIDATES_PER_ROUND = 4  # times per_round: how many deltas are held in memory
CANDIDATES_PER_NODE = 4  # of those, so that no node crowds out the others


def inspect(state: Master, view: View, manifest: Manifest) -> MasterStep:
    """Ask for deltas not seen yet; what is too large is never downloaded."""
    bounds, limits = state.settings.bounds, manifest.limits
    most = CANDIDATES_PER_ROUND * limits.per_round
    known = {c.name for c in state.candidates} | {b.name for b in state.broken}
    unknown = [d for d in view.deltas if d.name not in known]
    large = [
        Broken(d.name, f"{d.bytes} bytes, at most {bounds.file_bytes} are read")
        for d in unknown
        if d.bytes > bounds.file_bytes
    ]
    if roster := manifest.roster:
        strangers = {d.name for d in unknown if roster.member(d.name.node) is None}
        large += [
            Broken(name, f"node {name.node} is not in the roster")
            for name in sorted(strangers - {b.name for b in large})
        ]
        unknown = [d for d in unknown if d.name not in strangers]
    if large:
        state = attrs.evolve(state, broken=(*state.broken, *large)[:most])
    room = min(most - len(state.candidates), limits.per_round)
    if state.inspecting or room <= 0 or view.revision is None:
        return state, ()
    small = [d.name for d in unknown if d.bytes <= bounds.file_bytes]
    wanted = _chosen(state, manifest, small)[:room]
    if not wanted:
        return state, ()
    state = attrs.evolve(state, inspecting=True)
    return state, (Inspect(revision=view.revision, names=tuple(wanted)),)


def _chosen(
    state: Master, manifest: Manifest, names: list[DeltaName]
) -> list[DeltaName]:
    """Which to read: some of each node, those first that have waited longest.

    Of one node the streams come first that have counted: names are free, work is not.
    """
    held = Counter(c.name.node for c in state.candidates)
    chosen: list[DeltaName] = []
    new = {name: manifest.register(name.stream) is None for name in names}
    for name in sorted(names, key=lambda n: (new[n], turn(manifest, n))):
        if held[name.node] < CANDIDATES_PER_NODE:
            chosen.append(name)
            held[name.node] += 1
    return sorted(chosen, key=lambda name: turn(manifest, name))


def inspected(state: Master, event: Inspected) -> Master:
    """Hold what was read."""
    candidates = {c.name: c for c in (*state.candidates, *event.candidates)}
    broken = {b.name: b for b in (*state.broken, *event.broken)}
    return attrs.evolve(
        state,
        inspecting=False,
        candidates=tuple(candidates.values()),
        broken=tuple(broken.values()),
    )


def suspect(state: Master, event: Suspected) -> Master:
    """Hold it against deltas that a round with them would do harm.

    Where it is not certain whose fault it was, the work may come again.
    """

    def blamed(facts: Facts) -> Facts:
        if event.certain:
            return attrs.evolve(facts, harm=event.reason)
        return attrs.evolve(facts, objection=event.reason)

    candidates = tuple(
        attrs.evolve(c, facts=blamed(c.facts)) if c.name in event.names else c
        for c in state.candidates
    )
    return attrs.evolve(state, candidates=candidates)


def forget(state: Master, view: View, manifest: Manifest) -> Master:
    """Drop what a fresh look made untrue.

    A prepared round stays if only the lease changed since. Otherwise somebody decided
    in the meantime, and what was computed is of a round that is over.
    """
    listed = {d.name for d in view.deltas}
    prepared = state.prepared
    if prepared:
        accepted = {c.name for c in prepared.decisions.accepted}
        basis = prepared.basis
        same = all(
            getattr(basis, what) == getattr(manifest, what)
            for what in ("round_id", "ledger", "roster", "standings")
        )
        if not same or not accepted <= listed:
            prepared = None
    return attrs.evolve(
        state,
        prepared=prepared,
        candidates=tuple(c for c in state.candidates if c.name in listed),
        broken=tuple(b for b in state.broken if b.name in listed),
        swept=state.swept & listed,
    )
