"""Loss on held-out data: sums over all batches, divided once."""

import itertools
import math
from collections.abc import Callable, Iterable

import attrs
import torch

from speedtronic.pure.inner import InnerState
from speedtronic.pure.module import ModuleLoss
from speedtronic.pure.types import Batch
from speedtronic.shell.data import Data
from speedtronic.shell.session import Session, on_device


@attrs.frozen(kw_only=True)
class Evaluation:
    """What held-out data says of a state."""

    loss: float  # nats per counted target
    targets: int
    bits_per_byte: float | None  # where the data knows its bytes


def evaluate(
    loss: ModuleLoss,
    state: InnerState,
    batches: Iterable[Batch],
    *,
    bytes_per_token: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation | None:
    """Evaluate a state, which is left as it is; no randomness is drawn.

    The result does not depend on the batch size, beyond rounding.

    Args:
        loss: in evaluation mode.
        state: whose parameters and buffers are used.
        batches: on the CPU.
        bytes_per_token: mean bytes of text per target.
        stop: asked between batches.

    Returns:
        None if it was stopped, or if no target counts.
    """
    device = state.key.device
    # MPS has no float64; its sums are those of float32.
    wide = torch.float32 if device.type == "mps" else torch.float64
    loss_sum = torch.zeros((), dtype=wide, device=device)
    count = torch.zeros((), dtype=wide, device=device)
    weights = state.params | state.frozen
    with torch.no_grad():
        for batch in batches:
            if stop():
                return None
            out = loss(weights, state.buffers, on_device(batch, device), state.key)
            loss_sum, count = loss_sum + out.loss_sum, count + out.count
    total, targets = torch.stack([loss_sum, count]).tolist()
    if not targets:
        return None
    mean = total / targets
    bits = None if bytes_per_token is None else mean / math.log(2) / bytes_per_token
    return Evaluation(loss=mean, targets=int(targets), bits_per_byte=bits)


def evaluate_held_out(
    session: Session,
    data: Data,
    state: InnerState,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation | None:
    """Evaluate a state as the config's evaluation section says.

    Returns:
        None if nothing is held out, or as `evaluate`.
    """
    if not data.has_validation:
        return None
    section = session.config.evaluation
    size = section.batch_size or session.config.data.micro_batch_size
    batches = data.validation_batches(size)
    if section.max_batches is not None:
        batches = itertools.islice(batches, section.max_batches)
    return evaluate(
        session.evaluation_loss,
        state,
        batches,
        bytes_per_token=data.bytes_per_token(),
        stop=stop,
    )
