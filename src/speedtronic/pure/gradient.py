"""The gradient of a pure loss, by either of torch's two engines.

``autograd`` differentiates with `torch.autograd.grad`: the fastest in eager mode, and
the only one that knows activation checkpoints. ``func`` uses `torch.func`, which
`torch.vmap` can batch. Both give the gradient of the loss *sum*.
"""

from typing import Literal

import torch
from torch import Tensor

from speedtronic.pure.module import ModuleLoss
from speedtronic.pure.types import (
    Batch,
    Buffers,
    Key,
    LossFunction,
    LossOutput,
    Params,
)

Engine = Literal["autograd", "func"]


class Gradient:
    """A loss's gradient beside its output; made by `gradient`.

    ``draws`` says whether the loss is random, so that a key is worth computing.
    """

    def __init__(self, loss: LossFunction, engine: Engine) -> None:
        self.loss = loss
        self.draws: bool = getattr(loss, "draws", True)
        self._run = self._autograd if engine == "autograd" else self._func

    def __call__(
        self,
        params: Params,
        frozen: Params,
        buffers: Buffers,
        batch: Batch,
        key: Key,
        scale: Tensor | None,
    ) -> tuple[Params, LossOutput]:
        """Differentiate by ``params`` only.

        Args:
            params: f32, trained.
            frozen: not trained.
            buffers: by name.
            batch: one micro-batch.
            key: i64[2].
            scale: f32[] that multiplies the loss before it is differentiated, or None.

        Returns:
            The gradients of the (scaled) loss sum, and the loss output.
        """
        grads, out = self._run(params, frozen, buffers, batch, key, scale)
        return grads, LossOutput(
            loss_sum=out.loss_sum.detach(),
            count=out.count.detach(),
            metrics=out.metrics,
            buffers=out.buffers,
        )

    def _autograd(
        self,
        params: Params,
        frozen: Params,
        buffers: Buffers,
        batch: Batch,
        key: Key,
        scale: Tensor | None,
    ) -> tuple[Params, LossOutput]:
        leaf = {name: p.detach().requires_grad_() for name, p in params.items()}

        def differentiate(out: LossOutput) -> Params:
            grads = torch.autograd.grad(
                _scaled(out, scale),
                list(leaf.values()),
                allow_unused=True,
                materialize_grads=True,
            )
            return dict(zip(leaf, grads, strict=True))

        if isinstance(self.loss, ModuleLoss):
            return self.loss.run(leaf | frozen, buffers, batch, key, differentiate)
        out = self.loss(leaf | frozen, buffers, batch, key)
        return differentiate(out), out

    def _func(
        self,
        params: Params,
        frozen: Params,
        buffers: Buffers,
        batch: Batch,
        key: Key,
        scale: Tensor | None,
    ) -> tuple[Params, LossOutput]:
        def target(params: Params) -> tuple[Tensor, LossOutput]:
            out = self.loss(params | frozen, buffers, batch, key)
            return _scaled(out, scale), out

        grads, (_, out) = torch.func.grad_and_value(target, has_aux=True)(params)
        return grads, out


def gradient(loss: LossFunction, engine: Engine = "autograd") -> Gradient:
    """The function that gives a loss's gradient beside its output.

    >>> def square(params, buffers, batch, key):
    ...     x = params["x"]
    ...     return LossOutput(
    ...         loss_sum=(x * x).sum(), count=torch.ones(()), metrics={}, buffers={}
    ...     )
    >>> x = torch.tensor([3.0])
    >>> gradient(square)({"x": x}, {}, {}, None, None, None)[0]
    {'x': tensor([6.])}
    """
    return Gradient(loss, engine)


def _scaled(out: LossOutput, scale: Tensor | None) -> Tensor:
    return out.loss_sum if scale is None else out.loss_sum * scale
