"""Activation checkpointing that every engine can differentiate.

A function's inputs are kept and its inner activations computed again in the backward
pass (arXiv:1604.06174). `torch.utils.checkpoint` rests on saved-tensor hooks, which
`torch.func.grad` refuses; inside a compiled step it refuses attention, whose operator
counts as random, and more than one micro-batch. An explicit backward has none of
these limits, and measures as fast and as small.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def recompute(function: Callable[..., Tensor], *inputs: Tensor | None) -> Tensor:
    """``function(*inputs)``, forgetting what it computes on the way.

    Args:
        function: pure: it must reach every tensor that needs a gradient through its
            arguments, and draw nothing at random.
        inputs: tensors, or None where the function takes it.

    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> torch.autograd.grad(recompute(lambda x: x.exp().log() * 3, x), x)
    (tensor([3.]),)
    """
    result: Tensor = _Recompute.apply(function, *inputs)  # type: ignore[no-untyped-call]
    return result


class _Recompute(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(function: Callable[..., Tensor], *inputs: Tensor | None) -> Tensor:
        return function(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.function, *tensors = inputs
        ctx.save_for_backward(*tensors)
        device = output.device.type
        ctx.autocast = {
            "device_type": device,
            "dtype": torch.get_autocast_dtype(device),
            "enabled": torch.is_autocast_enabled(device),
        }

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        places = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]

        def again(*chosen: Tensor) -> Tensor:
            values = dict(zip(places, chosen, strict=True))
            given = [values.get(i, x) for i, x in enumerate(inputs)]
            with torch.autocast(**ctx.autocast):
                return ctx.function(*given)  # type: ignore[no-any-return]

        pull = torch.func.vjp(again, *(inputs[i] for i in places))[1]
        found = dict(zip(places, pull(*grads), strict=True))
        return (None, *(found.get(i) for i in range(len(inputs))))
