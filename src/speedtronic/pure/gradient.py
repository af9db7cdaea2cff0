"""The gradient of a pure loss, by either of torch's two engines.

``autograd`` differentiates with `torch.autograd.grad`: the fastest in eager mode, and
the only one that knows activation checkpoints. ``func`` uses `torch.func`, which
`torch.vmap` can batch. Both give the gradient of the loss *sum*. The shell may pass
another engine, which must give the same.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from speedtronic.pure.contract import ContractError
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
Finish = Callable[[LossOutput], Any]
Run = Callable[[Params, Finish], tuple[Any, LossOutput]]
Differentiate = Callable[[Run, Params, Tensor | None], tuple[Params, LossOutput]]


class Gradient:
    """A loss's gradient beside its output; made by `gradient`.

    ``draws`` says whether the loss is random, so that a key is worth computing.
    """

    def __init__(self, loss: LossFunction, engine: Engine | Differentiate) -> None:
        self.loss = loss
        self.draws: bool = getattr(loss, "draws", True)
        self._differentiate = engine if callable(engine) else _known(engine)

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

        Raises:
            ContractError: the loss depends on no parameter.
        """

        def run(trained: Params, finish: Finish) -> tuple[Any, LossOutput]:
            weights = trained | frozen
            if isinstance(self.loss, ModuleLoss):
                return self.loss.run(weights, buffers, batch, key, finish)
            out = self.loss(weights, buffers, batch, key)
            return finish(out), out

        grads, out = self._differentiate(run, params, scale)
        return grads, LossOutput(
            loss_sum=out.loss_sum.detach(),
            count=out.count.detach(),
            metrics=out.metrics,
            buffers=out.buffers,
        )


def _known(engine: Engine) -> Differentiate:
    if engine not in get_args(Engine):
        known = ", ".join(get_args(Engine))
        raise ValueError(f"engine: expected one of {known}, found {engine!r}")
    return _by_autograd if engine == "autograd" else _by_func


def _by_autograd(
    run: Run, params: Params, scale: Tensor | None
) -> tuple[Params, LossOutput]:
    leaf = {name: p.detach().requires_grad_() for name, p in params.items()}

    def differentiate(out: LossOutput) -> Params:
        if not out.loss_sum.requires_grad:
            raise ContractError("the loss depends on no parameter that is trained")
        grads = torch.autograd.grad(
            _scaled(out, scale),
            list(leaf.values()),
            allow_unused=True,
            materialize_grads=True,
        )
        return dict(zip(leaf, grads, strict=True))

    return run(leaf, differentiate)


def _by_func(
    run: Run, params: Params, scale: Tensor | None
) -> tuple[Params, LossOutput]:
    def target(params: Params) -> tuple[Tensor, LossOutput]:
        _, out = run(params, lambda _: None)
        return _scaled(out, scale), out

    grads, (_, out) = torch.func.grad_and_value(target, has_aux=True)(params)
    return grads, out


def gradient(
    loss: LossFunction, engine: Engine | Differentiate = "autograd"
) -> Gradient:
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
