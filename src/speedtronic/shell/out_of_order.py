"""The backward pass with the gradients of weights beside it (``ooo_backprop``).

A linear layer gives two gradients. The layers before wait for that of its input; that
of its weight is wanted at the end only. Here the first stays in order and the second
goes to one of several CUDA streams, so that a device that one product does not fill
computes both at a time (after "Out-of-order backprop", EuroSys 2022, which reorders
single kernels). It changes when things are computed and not what: the gradients are
those of the usual order; those of a weight that is used several times under autocast
are added in float32, where autocast rounds their sum.

Left to the usual order: products that are not `torch.nn.functional.linear`, and layers
whose input needs no gradient or that are recomputed for activation checkpoints. A model
that differentiates in its own forward pass is refused.

What is kept safe: a side stream waits until its inputs are computed, and the caller's
stream waits for all of them before it reads a gradient. Until then what they read is
neither freed nor, by the engine that adds gradients in place, written to.
"""

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from speedtronic.errors import ModelError
from speedtronic.pure.contract import ContractError
from speedtronic.pure.gradient import Differentiate, Run
from speedtronic.pure.types import LossOutput, Params


class Beside(Protocol):
    """Computes beside the caller."""

    def submit(self, product: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Begin a product; its result must not be read before `join`."""
        ...

    def join(self, results: list[Tensor]) -> None:
        """From now on the caller may read the results."""
        ...


class CudaStreams:
    """Side streams of a CUDA device, taken in turn.

    Args:
        device: with an index.
        count: streams beside the caller's.
    """

    def __init__(self, device: torch.device, count: int) -> None:
        self._device = device
        make: Any = torch.cuda.Stream
        self._streams = [make(device) for _ in range(count)]
        self._turns = itertools.cycle(self._streams)
        self._busy: deque[tuple[Any, tuple[Tensor, ...]]] = deque()  # event, inputs

    def submit(self, product: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Begin a product on the next stream, once what is queued so far is done."""
        stream = next(self._turns)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            result = product(*inputs)
        for x in inputs:  # their memory is that of the caller's stream
            x.record_stream(stream)
        # The engine adds to a gradient in place where nobody else holds it.
        self._busy.append((stream.record_event(), inputs))
        while self._busy and self._busy[0][0].query():
            self._busy.popleft()
        return result

    def join(self, results: list[Tensor]) -> None:
        """Let the caller's stream wait for all of them; the host does not wait."""
        caller = torch.cuda.current_stream(self._device)
        for stream in self._streams:
            caller.wait_stream(stream)
        for x in results:  # their memory is that of a side stream
            x.record_stream(caller)
        self._busy.clear()


def out_of_order(beside: Beside) -> Differentiate:
    """An engine for `speedtronic.pure.gradient.gradient`.

    Args:
        beside: computes the gradients of weights.
    """

    def differentiate(
        run: Run, params: Params, scale: Tensor | None
    ) -> tuple[Params, LossOutput]:
        leaf = {name: p.detach().requires_grad_() for name, p in params.items()}
        watch = _Watch(leaf, beside)

        def finish(out: LossOutput) -> Params:
            watch.forward = False
            if not out.loss_sum.requires_grad:
                raise ContractError("the loss depends on no parameter that is trained")
            loss = out.loss_sum if scale is None else out.loss_sum * scale
            grads = torch.autograd.grad(loss, list(leaf.values()), allow_unused=True)
            return watch.gather(dict(zip(leaf, grads, strict=True)))

        with watch:
            return run(leaf, finish)

    return differentiate


class _Watch(TorchFunctionMode):
    """Sees the linear layers of one forward pass, and holds their gradients."""

    def __init__(self, leaf: Params, beside: Beside) -> None:
        super().__init__()
        self.forward = True
        self._leaf, self._beside = leaf, beside
        self._names = {id(value): name for name, value in leaf.items()}
        self._begun: dict[str, list[Tensor]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.linear and self.forward:
            return self._linear(*args, **kwargs)
        return func(*args, **kwargs)

    def begin(self, name: str, input: Tensor, grad: Tensor) -> None:
        """Compute a weight's gradient, f32[O, I], beside the backward pass."""
        if self.forward:
            raise ModelError(
                "ooo_backprop: the model differentiates in its forward pass, which this"
                " cannot follow; set it to false"
            )
        like = self._leaf[name]
        result = self._beside.submit(
            lambda x, g: _weight_gradient(x, g).to(like.dtype), input, grad
        )
        self._begun.setdefault(name, []).append(result)

    def gather(self, grads: dict[str, Tensor | None]) -> Params:
        """What the backward pass found, and what was computed beside it."""
        self._beside.join([x for parts in self._begun.values() for x in parts])
        found: Params = {}
        for name, grad in grads.items():
            parts = [*self._begun.get(name, ()), *(() if grad is None else (grad,))]
            found[name] = (
                sum(parts[1:], parts[0])
                if parts
                else torch.zeros_like(self._leaf[name])
            )
        return found

    def _linear(
        self, input: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        name = self._names.get(id(weight))
        plain = not (torch.is_grad_enabled() and input.requires_grad)
        if name is None or plain or input.dim() < 2:
            return F.linear(input, weight, bias)
        kind = input.device.type
        if torch.is_autocast_enabled(kind):  # as autocast does, where it can be seen
            dtype = torch.get_autocast_dtype(kind)
            input = input.to(dtype)
            bias = None if bias is None else bias.to(dtype)
            weight = weight.to(dtype)
        apply: Any = _Linear.apply
        result: Tensor = apply(input, weight.detach(), bias, self, name)
        return result


class _Linear(torch.autograd.Function):
    """A linear layer whose weight is no part of the graph."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,  # [..., I]
        weight: Tensor,  # [O, I]
        bias: Tensor | None,  # [O]
        watch: _Watch,
        name: str,
    ) -> Tensor:
        ctx.save_for_backward(input, weight)
        ctx.watch, ctx.name = watch, name
        return F.linear(input, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        input, weight = ctx.saved_tensors
        ctx.watch.begin(ctx.name, input, grad)
        of_bias = None
        if ctx.needs_input_grad[2]:
            of_bias = grad.flatten(end_dim=-2).sum(dim=0)
        return grad @ weight, None, of_bias, None, None


def _weight_gradient(input: Tensor, grad: Tensor) -> Tensor:
    return grad.flatten(end_dim=-2).mT @ input.flatten(end_dim=-2)
