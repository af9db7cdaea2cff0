"""Which checkpoints of a run to delete after one more is in place.

Deliberately absent: file times, names and order of listing. Only the step decides, so
that copying a run or setting a clock changes nothing.
"""

from collections.abc import Iterable

import attrs


@attrs.frozen
class Kept:
    """A whole checkpoint of this run."""

    step: int
    finite: bool  # whether its weights are
    validation_loss: float | None  # None if it was not evaluated


def to_delete(
    kept: Iterable[Kept], *, keep_last: int | None, keep_best: bool
) -> list[int]:
    """Steps whose checkpoints may go, in ascending order.

    Only checkpoints with finite weights count. Of those the ``keep_last`` newest stay,
    and with ``keep_best`` the one with the lowest validation loss (the newest of equal
    ones). Of those with other weights the newest stays, to be looked at.

    Args:
        kept: what is there, the new one included.
        keep_last: at least 1, or None to keep everything.
        keep_best: whether the best one stays.

    >>> losses = [3.0, 1.0, 2.0, None]
    >>> kept = [Kept(step, True, loss) for step, loss in enumerate(losses)]
    >>> to_delete(kept, keep_last=1, keep_best=True)
    [0, 2]
    """
    ordered = sorted(kept, key=lambda k: k.step)
    if keep_last is None:
        return []
    good = [k for k in ordered if k.finite]
    bad = [k for k in ordered if not k.finite]
    stay = {k.step for k in good[-keep_last:] + bad[-1:]}
    if keep_best and (best := best_of(good)) is not None:
        stay.add(best.step)
    return [k.step for k in ordered if k.step not in stay]


def best_of(kept: Iterable[Kept]) -> Kept | None:
    """The one with finite weights and the lowest validation loss, if any.

    >>> best_of([Kept(1, True, 2.0), Kept(2, True, 1.0), Kept(3, False, 0.0)]).step
    2
    """
    scored = [
        (k.validation_loss, -k.step, k)
        for k in kept
        if k.finite and k.validation_loss is not None
    ]
    return min(scored, key=lambda entry: entry[:2])[2] if scored else None
