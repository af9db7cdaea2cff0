"""Loss on held-out data: sums over all batches, divided once.

A state that keeps an average of its weights is evaluated twice, with either of them.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import torch

from speedtronic.pure.inner import InnerState
from speedtronic.pure.module import ModuleLoss
from speedtronic.pure.types import Batch
from speedtronic.shell.average import averaged_state
from speedtronic.shell.data import Data
from speedtronic.shell.session import Session, on_device


@attrs.frozen(kw_only=True)
class Evaluation:
    """What held-out data says of a state."""

    loss: float  # nats per counted target
    targets: int
    bits_per_byte: float | None  # where the data knows its bytes
    average_loss: float | None = None  # of the averaged weights, if there are any

    @property
    def recorded(self) -> dict[str, Any]:
        """What a `StepRecord` says of it."""
        return {
            "validation_loss": self.loss,
            "bits_per_byte": self.bits_per_byte,
            "average_validation_loss": self.average_loss,
        }

    @property
    def best_loss(self) -> float:
        """The loss of the weights that do better, since a checkpoint holds both."""
        if self.average_loss is None or not math.isfinite(self.average_loss):
            return self.loss
        if not math.isfinite(self.loss):
            return self.average_loss
        return min(self.loss, self.average_loss)


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
    """Evaluate a state, and its average, as the config's evaluation section says.

    Returns:
        None if nothing is held out, or as `evaluate`.
    """
    if not data.has_validation:
        return None
    section = session.config.evaluation
    size = section.batch_size or session.config.data.micro_rows

    def one(weights: InnerState) -> Evaluation | None:
        batches = data.validation_batches(size)
        return evaluate(
            session.evaluation_loss,
            weights,
            itertools.islice(batches, section.max_batches),
            bytes_per_token=data.bytes_per_token(),
            stop=stop,
        )

    found, average = one(state), averaged_state(state)
    if found is None or average is None:
        return found
    other = one(average)
    return None if other is None else attrs.evolve(found, average_loss=other.loss)
