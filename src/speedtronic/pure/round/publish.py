"""The commits of a leader: how a run begins, is taken over, decided and kept alive.

Each is one compare-and-swap on the revision that was looked at, and holds a manifest
with a nonce of its own. Weights, momentum, manifest and the end of the decided deltas
are one commit, so no reader ever sees half of a round.
"""

import attrs

from speedtronic.pure.round import chain, names, retain
from speedtronic.pure.round.admit import Decisions
from speedtronic.pure.round.events import Publish, View
from speedtronic.pure.round.manifest import FILES_PER_COMMIT, File, Manifest
from speedtronic.pure.round.master_state import (
    Genesis,
    Master,
    MasterStep,
    Prepared,
    leads,
    nonce,
)
from speedtronic.pure.round.roster import Roster, newer

NOTHING_KEPT = retain.Plan()
MODEL_FILES = 4  # manifest, weights, momentum, and the card that goes with them


def begin(state: Master, view: View, genesis: Genesis) -> MasterStep:
    """Begin the run on a lane that has none."""
    settings = state.settings
    manifest = chain.genesis(
        lineage=settings.lineage,
        limits=settings.limits,
        outer=settings.outer,
        weights=genesis.weights,
        momentum=genesis.momentum,
        node=settings.node,
        life=settings.life,
        nonce=nonce(state),
        roster=genesis.roster,
    )
    kept = retain.plan(
        round=0, accepted=(), keep=settings.keep_rounds, listing=(), budget=0
    )
    return _commit(state, view, manifest, fresh=True, kept=kept)


def take_over(state: Master, view: View, manifest: Manifest) -> MasterStep:
    """Become the holder, one epoch later, and take in a roster that is asked for."""
    settings = state.settings
    roster = view.proposal if newer(manifest.roster, view.proposal) else None
    taken = chain.taken_over(
        manifest, settings.node, settings.life, nonce(state), roster
    )
    return _commit(state, view, taken, deletes=(names.ROSTER,) if roster else ())


def enrol(state: Master, view: View, manifest: Manifest, roster: Roster) -> MasterStep:
    """Publish the roster that the run's owner asks for; nothing is decided."""
    new = chain.enrolled(manifest, roster, nonce(state))
    return _commit(state, view, new, deletes=(names.ROSTER,))


def release(state: Master, view: View, manifest: Manifest) -> MasterStep:
    """Give the lease up, so that nobody has to wait until it expires.

    It is committed on the revision that was looked at. So whatever lay on the lane
    before it was decided, and who comes after it finds the lease free.
    """
    return _commit(state, view, chain.released(manifest, nonce(state)))


def renew(state: Master, view: View, manifest: Manifest) -> MasterStep:
    """Say that the holder is there; nothing is decided."""
    return _commit(state, view, chain.decided(manifest, (), (), nonce(state), None))


def restore(state: Master, view: View, manifest: Manifest) -> MasterStep:
    """Put the run back where somebody spoiled its root, one serial later.

    It is a compare-and-swap on what was looked at, so a head that only lags costs a
    commit that fails.
    """
    settings = state.settings
    if leads(state):
        new = chain.decided(manifest, (), (), nonce(state), None)
    else:
        new = chain.taken_over(manifest, settings.node, settings.life, nonce(state))
    return _commit(state, view, new, restores=True)


def close_round(
    state: Master,
    view: View,
    manifest: Manifest,
    prepared: Prepared,
    files: tuple[File, File],
) -> MasterStep:
    """Publish a round: everything that belongs to it, in one commit."""
    decisions = prepared.decisions
    new = chain.decided(
        manifest,
        decisions.accepted_registers(manifest),
        decisions.refused_registers(manifest),
        nonce(state),
        files,
        prepared.clipped,
    )
    counted = tuple(c.name.path for c in decisions.accepted)
    room = FILES_PER_COMMIT - MODEL_FILES - len(counted)
    kept = retain.plan(
        round=new.round,
        accepted=new.accepted,
        keep=state.settings.keep_rounds,
        listing=view.kept,
        budget=(room - len(counted)) // 2,
    )
    room -= kept.adds + len(kept.deletes)
    rubbish = _rubbish(view, decisions)[: max(0, room)]
    return _commit(
        state, view, new, fresh=True, kept=kept, deletes=(*counted, *rubbish)
    )


def refuse_only(
    state: Master, view: View, manifest: Manifest, decisions: Decisions
) -> MasterStep:
    """Publish refusals without a round, sweep garbage, and renew the lease.

    A refusal does not wait for a round: until it is published its writer can send
    nothing else.
    """
    refused = decisions.refused_registers(manifest)
    new = chain.decided(manifest, (), refused, nonce(state), None)
    deletes = _rubbish(view, decisions)[: FILES_PER_COMMIT - 1]
    return _commit(state, view, new, deletes=deletes)


def _rubbish(view: View, decisions: Decisions) -> tuple[str, ...]:
    """What is refused or garbage, and still there."""
    listed = {d.name for d in view.deltas}
    found = [*(c.name for c, _ in decisions.refused)]
    found += [b.name for b in decisions.garbage]
    return tuple(name.path for name in dict.fromkeys(found) if name in listed)


def _commit(
    state: Master,
    view: View,
    manifest: Manifest,
    *,
    fresh: bool = False,
    restores: bool = False,
    kept: retain.Plan = NOTHING_KEPT,
    deletes: tuple[str, ...] = (),
) -> MasterStep:
    state = attrs.evolve(state, committing=True, attempts=state.attempts + 1)
    publish = Publish(
        parent=view.revision,
        manifest=manifest,
        names=(names.MANIFEST, *kept.manifest),
        fresh=fresh,
        restores=restores,
        copies=kept.copies,
        deletes=(*deletes, *kept.deletes),
    )
    return state, (publish,)
