"""Loss scaling for fp16: keeps small gradients from vanishing.

The loss is multiplied by the scale before the backward pass; gradients are divided by
it before they are looked at, clipped or applied. The numbers are those of
``torch.amp.GradScaler``. Whether a step is skipped is the inner step's business.
"""

import torch
from torch import Tensor

from speedtronic.pure.tree import state


@state
class ScaleState:
    """The scale, and how long it has been right."""

    scale: Tensor  # f32[]
    good_steps: Tensor  # i64[], finite steps since the scale last changed


def init_scale(initial: float = 65536.0) -> ScaleState:
    """The state before the first step.

    >>> init_scale(8.0)
    ScaleState(scale=tensor(8.), good_steps=tensor(0))
    """
    if not initial > 0:
        raise ValueError(f"initial: expected a number above 0, found {initial!r}")
    return ScaleState(
        scale=torch.tensor(initial, dtype=torch.float32),
        good_steps=torch.tensor(0, dtype=torch.int64),
    )


def update_scale(
    state: ScaleState,
    finite: Tensor,
    growth_interval: int = 2000,
    growth: float = 2.0,
    backoff: float = 0.5,
) -> ScaleState:
    """The scale for the next step.

    Args:
        state: the scale of this step.
        finite: bool[], whether all gradients were finite under it.
        growth_interval: finite steps in a row before the scale grows.
        growth: by how much; not if the scale would overflow.
        backoff: what the scale is multiplied by after a step that was not finite.

    >>> update_scale(init_scale(8.0), torch.tensor(False))
    ScaleState(scale=tensor(4.), good_steps=tensor(0))
    >>> update_scale(init_scale(8.0), torch.tensor(True), growth_interval=1)
    ScaleState(scale=tensor(16.), good_steps=tensor(0))
    """
    good = state.good_steps + 1
    full = good == growth_interval
    grown = state.scale * growth
    up = torch.where(full & torch.isfinite(grown), grown, state.scale)
    return ScaleState(
        scale=torch.where(finite, up, state.scale * backoff),
        good_steps=torch.where(finite & ~full, good, torch.zeros_like(good)),
    )
