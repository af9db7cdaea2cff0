"""When a round ends: the quorum, the grace window after it, and who is waited for."""

import math

import attrs

from speedtronic.pure.round.admit import Decisions
from speedtronic.pure.round.events import Tell
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master_state import Master, MasterStep


def counted(
    state: Master, now_s: float, manifest: Manifest, decisions: Decisions
) -> MasterStep:
    """Since when the quorum is there; say so once if it stays away."""
    settings, found = state.settings, {c.name.node for c in decisions.accepted}
    if len(decisions.accepted) >= settings.quorum:
        since_s = now_s if state.quorum_s is None else state.quorum_s
        return attrs.evolve(state, quorum_s=since_s, short_s=None), ()
    since_s = now_s if state.short_s is None or not found else state.short_s
    state = attrs.evolve(state, quorum_s=None, short_s=since_s)
    if now_s - since_s < settings.ttl_s or math.isinf(since_s):
        return state, ()
    text = (
        f"round {manifest.round + 1} waits for its quorum: {len(found)} of "
        f"{settings.quorum} nodes have delivered, {', '.join(sorted(found))}"
    )
    return attrs.evolve(state, short_s=math.inf), (Tell("warning", text),)


def closes(
    state: Master, now_s: float, manifest: Manifest, decisions: Decisions
) -> bool:
    """Whether the round ends with these deltas.

    With the quorum there is a grace window for the others. It ends early when as many
    as are expected, or all streams that counted in the last two rounds, have delivered.
    """
    accepted = {c.name.stream for c in decisions.accepted}
    nodes = {c.name.node for c in decisions.accepted}
    if len(nodes) < max(1, state.settings.least):  # a node has one vote
        return False
    if state.alone or len(accepted) >= manifest.limits.per_round:
        return True
    if state.quorum_s is None:
        return False
    if 0 < state.settings.expected <= len(accepted):
        return True
    if now_s - state.quorum_s >= state.settings.grace_s:
        return True
    active = {
        r.stream
        for r in manifest.ledger
        if r.verdict == "accepted" and r.round >= manifest.round - 1
    }
    return bool(active) and active <= accepted
