"""The gradient of a pure loss, by either of torch's two engines.

``autograd`` differentiates with `torch.autograd.grad`: the fastest in eager mode, and
the only one that knows activation checkpoints. ``func`` uses `torch.func`, which
`torch.vmap` can batch. Both give the gradient of the loss *sum*.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from speedtronic.pure.module import ModuleLoss
from speedtronic.pure.tree import evolve
from speedtronic.pure.types import (
    Batch,
    Buffers,
    GradientFunction,
    Key,
    LossFunction,
    LossOutput,
    Params,
)

Engine = Literal["autograd", "func"]


def gradient(loss: LossFunction, engine: Engine = "autograd") -> GradientFunction:
    """The function that gives a loss's gradient beside its output.

    Args:
        loss: a pure loss.
        engine: see the head of this file.

    Returns:
        ``f(params, frozen, buffers, batch, key, scale)`` that differentiates by
        ``params`` only; ``scale`` (f32[] or None) multiplies the loss before it is
        differentiated. It gives ``(gradients, LossOutput)``.

    >>> def square(params, buffers, batch, key):
    ...     x = params["x"]
    ...     return LossOutput(
    ...         loss_sum=(x * x).sum(), count=torch.ones(()), metrics={}, buffers={}
    ...     )
    >>> x = torch.tensor([3.0])
    >>> gradient(square)({"x": x}, {}, {}, None, None, None)[0]
    {'x': tensor([6.])}
    """
    return _autograd(loss) if engine == "autograd" else _func(loss)


def _autograd(loss: LossFunction) -> GradientFunction:
    def run(
        params: Params,
        frozen: Params,
        buffers: Buffers,
        batch: Batch,
        key: Key,
        scale: Tensor | None,
    ) -> tuple[Params, LossOutput]:
        leaf = {name: p.detach().requires_grad_() for name, p in params.items()}

        def differentiate(out: LossOutput) -> Params:
            target = out.loss_sum if scale is None else out.loss_sum * scale
            grads = torch.autograd.grad(
                target, list(leaf.values()), allow_unused=True, materialize_grads=True
            )
            return dict(zip(leaf, grads, strict=True))

        if isinstance(loss, ModuleLoss):
            grads, out = loss.run(leaf | frozen, buffers, batch, key, differentiate)
        else:
            out = loss(leaf | frozen, buffers, batch, key)
            grads = differentiate(out)
        return grads, _detached(out)

    return run


def _func(loss: LossFunction) -> GradientFunction:
    def run(
        params: Params,
        frozen: Params,
        buffers: Buffers,
        batch: Batch,
        key: Key,
        scale: Tensor | None,
    ) -> tuple[Params, LossOutput]:
        def target(params: Params) -> tuple[Tensor, LossOutput]:
            out = loss(params | frozen, buffers, batch, key)
            return out.loss_sum if scale is None else out.loss_sum * scale, out

        grads, (_, out) = torch.func.grad_and_value(target, has_aux=True)(params)
        return grads, _detached(out)

    return run


def _detached(out: LossOutput) -> LossOutput:
    values: dict[str, Any] = {n: v.detach() for n, v in out.buffers.items()}
    return evolve(
        out, loss_sum=out.loss_sum.detach(), count=out.count.detach(), buffers=values
    )
