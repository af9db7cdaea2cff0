"""The values that every step speaks of.

Legend for shapes: B rows, T tokens, V vocabulary, P a parameter's own shape.
"""

from typing import Any, Protocol

from torch import Tensor

from speedtronic.pure.tree import state

Params = dict[str, Tensor]  # f32[P] by parameter name, tied weights once
Buffers = dict[str, Tensor]  # by buffer name, any dtype
Batch = Any  # a pytree of tensors
Key = Tensor  # i64[2], see speedtronic.pure.random


@state
class LossOutput:
    """What a loss says of one micro-batch.

    The loss is a sum and a count, so that any split of the same targets adds up to
    the same gradient; whoever wants a mean divides once, at the end.
    """

    loss_sum: Tensor  # f32[], sum over counted targets
    count: Tensor  # f32[], number of counted targets
    metrics: dict[str, Tensor]  # f32[] each, means over the micro-batch
    buffers: Buffers  # as the forward pass left them


class LossFunction(Protocol):
    """A pure loss: the same arguments give the same output."""

    def __call__(
        self, params: Params, buffers: Buffers, batch: Batch, key: Key, /
    ) -> LossOutput:
        """The loss of one micro-batch."""
        ...
