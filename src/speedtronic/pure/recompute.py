"""Activation checkpointing that every engine can differentiate.

A function's inputs are kept and its inner activations computed again in the backward
pass (arXiv:1604.06174). `torch.utils.checkpoint` rests on saved-tensor hooks, which
`torch.func.grad` refuses; inside a compiled step it refuses attention, whose operator
counts as random, and more than one micro-batch. An explicit backward has none of
these limits, and measures as fast and as small.
"""

import inspect
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor


def recomputed(
    function: Callable[..., Tensor], *, constants: Collection[str] = ()
) -> Callable[..., Tensor]:
    """The same function, forgetting what it computes on the way.

    Args:
        function: of positional float tensors. Pure: it reaches every tensor that needs
            a gradient through its arguments and draws nothing at random.
        constants: names of arguments that never get a gradient; these may also be None
            or of another dtype. They are named because torch 2.13's compiler, inside
            `torch.func.grad`, is wrong about which inputs need one.

    Raises:
        TypeError: for a function with ``*args``, which that compiler would call with
            one argument too many.

    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> torch.autograd.grad(recomputed(lambda x: x.exp().log() * 3)(x), x)
    (tensor([3.]),)
    """
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        raise TypeError(f"{function.__name__} must have plain positional arguments")
    moving = [i for i, p in enumerate(parameters) if p.name not in constants]
    count = len(parameters)

    class Recomputed(torch.autograd.Function):
        generate_vmap_rule = True
        forward = staticmethod(function)

        @staticmethod
        def setup_context(
            ctx: Any, inputs: tuple[Tensor | None, ...], output: Tensor
        ) -> None:
            ctx.save_for_backward(*inputs)
            ctx.device = output.device.type
            ctx.enabled = torch.is_autocast_enabled(ctx.device)
            ctx.dtype = torch.get_autocast_dtype(ctx.device)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
            inputs = ctx.saved_tensors

            def again(*chosen: Tensor) -> Tensor:
                values = dict(zip(moving, chosen, strict=True))
                given = [values.get(i, inputs[i]) for i in range(count)]
                with torch.autocast(ctx.device, ctx.dtype, ctx.enabled):
                    return function(*given)

            pull = torch.func.vjp(again, *(inputs[i] for i in moving))[1]
            found = dict(zip(moving, pull(grad), strict=True))
            return tuple(found.get(i) for i in range(count))

    def run(*inputs: Tensor | None) -> Tensor:
        return Recomputed.apply(*inputs)  # type: ignore[no-any-return,no-untyped-call]

    return run
