"""What the device knows of the last step, in one copy; nothing else waits for it."""

import attrs
import torch

from speedtronic.pure.inner import InnerState, StepInfo
from speedtronic.pure.scaling import ScaleState


@attrs.frozen(kw_only=True)
class Reading:
    """What one copy from the device tells about the last step."""

    loss: float
    gradient_norm: float
    applied: bool
    step: int  # that changed the parameters
    skipped: int
    skipped_in_row: int
    scale: float | None
    metrics: dict[str, float]


def read(state: InnerState, info: StepInfo) -> Reading:
    """Copy what a record needs from the device, all at once."""
    names, scale = list(info.metrics), state.scale
    values = [
        info.loss,
        info.gradient_norm,
        info.applied,
        state.step,
        state.skipped,
        state.skipped_in_row,
        scale.scale if isinstance(scale, ScaleState) else torch.zeros(()),
        *info.metrics.values(),
    ]
    device = info.loss.device
    wide = torch.float32 if device.type == "mps" else torch.float64
    told = torch.stack([v.to(device, wide) for v in values]).tolist()
    return Reading(
        loss=told[0],
        gradient_norm=told[1],
        applied=bool(told[2]),
        step=int(told[3]),
        skipped=int(told[4]),
        skipped_in_row=int(told[5]),
        scale=told[6] if isinstance(scale, ScaleState) else None,
        metrics=dict(zip(names, told[7:], strict=True)),
    )
