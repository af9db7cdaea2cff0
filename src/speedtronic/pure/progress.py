"""A node's work between two rounds, as vectors: what its model moved since the base.

The protocol (`speedtronic.pure.round.worker`) says when; here is the arithmetic of
its `Cut` and `Install`. A node's model is always ``base - remaining``, where
``remaining`` is the delta of all its progress, cut or not. A counted cut is taken out
of the progress before the base moves under what is left, so nothing is lost and
nothing is there twice.

Absent on purpose: a codec that loses something; the error buffer only holds content
that came back undone after the base had moved on without it.
"""

import attrs

from speedtronic.pure.delta import (
    Delta,
    Weights,
    add,
    compute_delta,
    rebase,
    subtract,
)
from speedtronic.pure.round.events import Install
from speedtronic.pure.tree import evolve, zeros_like


@attrs.frozen(kw_only=True, eq=False)
class Progress:
    """Everything of the model's size that a node keeps beside its model.

    ``cut`` and ``sent`` are there while a delta is pending, and are one vector unless
    something was owed. Deltas are on the CPU in float32.
    """

    base: Weights
    cut: Delta | None = None  # what leaves the progress when the pending delta counts
    sent: Delta | None = None  # what the pending delta holds
    error: Delta | None = None  # owed: goes out with the next cut


def cut(progress: Progress, current: Weights) -> Progress:
    """Everything that is in no delta yet becomes the pending one.

    Raises:
        ValueError: ``current`` does not fit the base.

    >>> import torch
    >>> base = Weights(params={"w": torch.ones(1)}, buffers={})
    >>> now = Weights(params={"w": torch.tensor([0.25])}, buffers={})
    >>> cut(Progress(base=base), now).sent.params
    {'w': tensor([0.7500])}
    """
    moved = compute_delta(progress.base, current)
    owed = progress.error
    sent = moved if owed is None else add(owed, moved)
    return attrs.evolve(progress, cut=moved, sent=sent)


def install(
    progress: Progress, current: Weights, effect: Install, base: Weights | None
) -> tuple[Progress, Weights | None]:
    """Do what `Install` says.

    Args:
        progress: of the node.
        current: its model.
        effect: what to do.
        base: the new global, where the effect names one.

    Returns:
        The progress after it, and the new model; None if the model stays as it is.

    >>> import torch
    >>> one = Weights(params={"w": torch.ones(1)}, buffers={})
    >>> now = Weights(params={"w": torch.tensor([0.25])}, buffers={})
    >>> new = Weights(params={"w": torch.tensor([0.5])}, buffers={})
    >>> held = cut(Progress(base=one), now)
    >>> after, model = install(held, now, Install(settle="count"), new)
    >>> model.params, after.cut
    ({'w': tensor([0.5000])}, None)
    """
    settled, stays = effect.settle, base is None or effect.carry
    inside = progress.cut if effect.inside else None
    remaining = compute_delta(progress.base, current)
    error = progress.error
    moved = base is not None
    if settled == "count":
        remaining = _without(remaining, inside)
        error, moved = None, True
    elif settled == "undo" and not (effect.inside and stays):
        remaining = _without(remaining, inside)
        error, moved = progress.sent, True
    elif settled == "drop":
        remaining, error, moved = _nothing(remaining), None, True
    if base is not None and not effect.carry:
        remaining = _nothing(remaining)
    kept = settled == "keep"
    after = Progress(
        base=base or progress.base,
        cut=progress.cut if kept else None,
        sent=progress.sent if kept else None,
        error=error,
    )
    return after, rebase(after.base, remaining) if moved else None


def _without(remaining: Delta, part: Delta | None) -> Delta:
    return remaining if part is None else subtract(remaining, part)


def _nothing(delta: Delta) -> Delta:
    return evolve(delta, params=zeros_like(delta.params), buffers={})
