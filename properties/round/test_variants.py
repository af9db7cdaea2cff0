"""The simulator can fail: simpler readings of the rules break within few schedules.

Each variant leaves out one rule of the real machines, or of whoever performs their
effects. If the simulator did not notice, it would prove nothing about the rest.
"""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from properties.round import simulator, world
from properties.round.observer import Violation
from properties.round.process import Machines, Process
from properties.round.scopes import SCOPES, Scope
from properties.round.simulator import run, schedule

from speedtronic.pure.round import admit, chain, gather, ledger, master, names, worker
from speedtronic.pure.round import events as e
from speedtronic.pure.round.chain import decided
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.settle import undone
from speedtronic.shell.lanes.base import ANY

SCHEDULES = 100  # within which a variant must break
Patch = pytest.MonkeyPatch
Change = Callable[[Patch], Machines]

PLAIN = SCOPES["plain"]
OLD = SCOPES["clones"]


def effects_changed(change: Callable[[e.Effect], e.Effect]) -> Machines:
    """The real machines, whose effects are changed on the way out."""

    def changed(machine: Any) -> Any:
        def step(state: Any, event: e.Event) -> Any:
            state, effects = machine(state, event)
            return state, tuple(change(effect) for effect in effects)

        return step

    return Machines(changed(worker.worker), changed(master.master))


def without_parent(patch: Patch) -> Machines:
    """Publish on whatever the head is."""

    def change(effect: e.Effect) -> e.Effect:
        if isinstance(effect, e.Publish):
            return attrs.evolve(effect, parent=ANY)  # type: ignore[arg-type]
        return effect

    return effects_changed(change)


def begin_without_parent(patch: Patch) -> Machines:
    """Begin a run on whatever the head is."""

    def change(effect: e.Effect) -> e.Effect:
        if isinstance(effect, e.Publish) and effect.manifest.serial == 0:
            return attrs.evolve(effect, parent=ANY)  # type: ignore[arg-type]
        return effect

    return effects_changed(change)


def keep_all(patch: Patch) -> Machines:
    """Re-base all of theta - base, also what was counted."""

    def change(effect: e.Effect) -> e.Effect:
        if isinstance(effect, e.Install) and effect.settle == "count":
            return attrs.evolve(effect, inside=False)
        return effect

    return effects_changed(change)


def forget_all(patch: Patch) -> Machines:
    """Start from the new global and say nothing of what was not sent."""
    real = Process._install

    def install(self: Process, before: Any, effect: e.Install) -> None:
        real(self, before, attrs.evolve(effect, carry=effect.base is None))
        self.lost.clear()

    patch.setattr(Process, "_install", install)
    return simulator.REAL


def not_durable(patch: Patch) -> Machines:
    """Send a delta that no disk knows of."""

    def save(self: Process, record: Any, vectors: Any) -> None:
        if record.pending is None:
            saves(self, record, vectors)

    saves = Process.save
    patch.setattr(Process, "save", save)
    return simulator.REAL


def save_while_cutting(patch: Patch) -> Machines:
    """Save a checkpoint between a cut and the moment it is durable."""
    real = Process._take

    def take(self: Process, machine: str, before: Any, effect: e.Effect) -> None:
        real(self, machine, before, effect)
        if isinstance(effect, e.Cut) and self.worker:
            self.save(self.worker.record, self.vectors)

    patch.setattr(Process, "_take", take)
    return simulator.REAL


def judge_by_absence(patch: Patch) -> Machines:
    """A delta that is not listed any more was refused."""

    def step(state: Any, event: e.Event) -> Any:
        pending = state.record.pending
        if isinstance(event, e.Looked) and pending and state.sent:
            listed = {d.name for d in event.view.deltas}
            if event.view.manifest and pending.header.name not in listed:
                state = attrs.evolve(state, record=undone(state.record))
        return worker.worker(state, event)

    return Machines(step, master.master)


def no_ledger(patch: Patch) -> Machines:
    """Count whatever is based on a recent round."""
    real = admit.inadmissible

    def inadmissible(manifest: Any, header: Any) -> str:
        told = real(manifest, header)
        return "" if "stream is at" in told or "repeated" in told else told

    patch.setattr(admit, "inadmissible", inadmissible)
    return simulator.REAL


def stream_per_life(patch: Patch) -> Machines:
    """A restored checkpoint begins a new chain."""

    def start(settings: Any, now_s: float, record: Any = None) -> Any:
        if record:
            stream = names.derive(settings.life, "stream", 0)
            record = attrs.evolve(record, stream=stream, known=None, pending=None)
        return worker.start_worker(settings, now_s, record)

    patch.setattr(world, "start_worker", start)
    return simulator.REAL


def forget_decisions(patch: Patch) -> Machines:
    """Evict a register while deltas that could follow an earlier one still count."""
    patch.setattr(ledger, "remembered", lambda limits, r, round: round == r.round)
    return simulator.REAL


def older_manifests(patch: Patch) -> Machines:
    """Take in whatever the head says, also when it lags."""

    def step(state: Any, event: e.Event) -> Any:
        if isinstance(event, e.Looked):
            record = attrs.evolve(state.record, serial=-1)
            state = attrs.evolve(state, record=record)
        return worker.worker(state, event)

    return Machines(step, master.master)


def by_name(patch: Patch) -> Machines:
    """Serve the lowest names first."""
    for module in (admit, gather):
        patch.setattr(module, "turn", lambda manifest, name: name.node)
    return simulator.REAL


def no_fence(patch: Patch) -> Machines:
    """Lead without holding the lease."""
    patch.setattr(master, "leads", lambda state: state.manifest is not None)
    return simulator.REAL


def unchecked_bytes(patch: Patch) -> Machines:
    """Believe what a read returns."""

    def checked(self: Process, wanted: Any, revision: str) -> int:
        data = self.lane.read(wanted.name, self.lane.head() or revision)
        self.files[wanted.sha256] = data
        return int(data)

    patch.setattr(Process, "_checked", checked)
    return simulator.REAL


def two_commits(patch: Patch) -> Machines:
    """Weights first, the manifest in a second commit."""
    real = Process._publish

    def publish(self: Process, effect: e.Publish) -> None:
        if effect.fresh and effect.manifest.round:
            weights = effect.manifest.weights
            adds = {weights.name: self.files[weights.sha256]}
            revision = self.lane.commit(adds, parent=effect.parent, message=self.life)
            effect = attrs.evolve(effect, parent=revision)
        real(self, effect)

    patch.setattr(Process, "_publish", publish)
    return simulator.REAL


def refusals_not_chained(patch: Patch) -> Machines:
    """A refusal is told, but the register stays where it was."""

    def forgetful(old: Any, accepted: Any, refused: Any, *rest: Any) -> Any:
        return decided(old, accepted, (), *rest)

    patch.setattr(chain, "decided", forgetful)
    return simulator.REAL


VARIANTS: dict[str, tuple[Change, Scope, set[str]]] = {
    "publish without parent": (without_parent, PLAIN, {"fork", "run erased", "fold"}),
    "begin without parent": (begin_without_parent, PLAIN, {"run erased", "fork"}),
    "keep theta - base": (keep_all, PLAIN, {"double in model", "double count"}),
    "theta = global": (forget_all, PLAIN, {"lost", "work"}),
    "a pending delta that is not durable": (not_durable, PLAIN, {"lost", "data twice"}),
    "a checkpoint during a cut": (save_while_cutting, PLAIN, {"stuck", "work"}),
    "judged by absence": (judge_by_absence, PLAIN, {"lost", "double in model"}),
    "no ledger": (no_ledger, OLD, {"double count"}),
    "a stream per life": (
        stream_per_life,
        PLAIN,
        {"double count", "double in model"},
    ),
    "forgotten decisions": (
        forget_decisions,
        attrs.evolve(OLD, limits=Limits(staleness=3, window=3, per_round=8)),
        {"double in model", "double count"},
    ),
    "older manifests": (older_manifests, PLAIN, {"halted", "torn"}),
    "lowest name first": (by_name, SCOPES["one delta per round"], {"starved"}),
    "no fence": (no_fence, PLAIN, {"fence", "two holders"}),
    "bytes not checked": (
        unchecked_bytes,
        PLAIN,
        {"torn", "fold", "double count"},
    ),
    "two commits": (two_commits, PLAIN, {"torn"}),
    "refusals not chained": (refusals_not_chained, SCOPES["refusals"], {"stuck"}),
}


def first_violation(machines: Machines, scope: Scope) -> tuple[int, Violation] | None:
    """The first seed that breaks, and how."""
    for seed in range(SCHEDULES):
        try:
            run(scope, schedule(seed), machines)
        except Violation as violation:
            return seed, violation
    return None


@pytest.mark.parametrize("name", VARIANTS)
def test_a_simpler_reading_breaks(name: str, monkeypatch: Patch) -> None:
    """Leaving out one rule violates an invariant, and the simulator says which."""
    change, scope, expected = VARIANTS[name]
    found = first_violation(change(monkeypatch), scope)
    assert found is not None
    assert found[1].kind in expected
