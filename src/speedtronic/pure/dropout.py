"""Dropout as a function of a key: eager, compiled and vmapped draw the same mask.

A dropout module is replaced, in the private copy that a loss runs, by one whose mask
is a hash of (key, place of the module, number of the call). Activation checkpointing
runs a module a second time in the backward pass and must see the same mask, so a
call is numbered within its own module, and numbering starts again for the backward.
`KeyedFunctions` does the same for the calls that have no module of their own.
Not covered: the dropout inside `nn.MultiheadAttention` and `nn.LSTM`, `torch.rand` and
the like; they draw from torch's generator, which the shell seeds around each step.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from speedtronic.pure.random import fold_in, uniform

_ALPHA = -1.7580993408473766  # negative saturation value of SELU (arXiv:1706.02515)


def keyed_dropout(key: Tensor, x: Tensor, rate: float, shared: int = 0) -> Tensor:
    """Zero elements with probability ``rate`` and scale the rest by 1 / (1 - rate).

    Args:
        key: i64[2].
        x: any float tensor.
        rate: in [0, 1].
        shared: number of trailing dimensions that share one draw (2 for images).

    >>> from speedtronic.pure.random import key_from_seed
    >>> keyed_dropout(key_from_seed(0), torch.ones(6), 0.5)
    tensor([0., 0., 0., 2., 0., 2.])
    """
    if rate >= 1:
        return x * 0
    return torch.where(_keep(key, x, rate, shared), x / (1 - rate), 0.0)


def keyed_alpha_dropout(key: Tensor, x: Tensor, rate: float, shared: int = 0) -> Tensor:
    """Dropout that keeps mean and variance of SELU activations (arXiv:1706.02515)."""
    if rate >= 1:
        return x * 0
    a: float = ((1 - rate) * (1 + rate * _ALPHA**2)) ** -0.5
    kept = torch.where(_keep(key, x, rate, shared), x, _ALPHA)
    return a * kept - a * _ALPHA * rate


def _keep(key: Tensor, x: Tensor, rate: float, shared: int) -> Tensor:
    shape = x.shape[: x.ndim - shared] + (1,) * shared
    return uniform(key, tuple(shape)).to(x.device) >= rate


class KeyedDropout(nn.Module):
    """Stands in for a dropout module; ``key`` is set by the functional call."""

    key: Tensor

    def __init__(self, rate: float, shared: int, alpha: bool) -> None:
        super().__init__()
        self.rate, self.shared, self.alpha = rate, shared, alpha
        self.calls = 0
        self.calls_before_backward = 0
        key = torch.zeros(2, dtype=torch.int64, device="meta")
        self.register_buffer("key", key, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of ``x``, in training only."""
        if not self.training or self.rate == 0:
            return x
        if self.calls_before_backward > 1:
            raise RuntimeError(
                "a dropout module that is called more than once cannot repeat its masks"
                " inside an activation checkpoint; use one module per call, or switch"
                " checkpointing off"
            )
        key = fold_in(self.key, self.calls)
        self.calls += 1
        drop = keyed_alpha_dropout if self.alpha else keyed_dropout
        return drop(key, x, self.rate, self.shared)


_SHARED = {nn.Dropout: 0, nn.Dropout1d: 1, nn.Dropout2d: 2, nn.Dropout3d: 3}


def keyed_copy(module: nn.Module) -> KeyedDropout | None:
    """The keyed stand-in for a dropout module of torch, or None for another module."""
    kind = type(module)
    if kind in _SHARED:
        return KeyedDropout(float(module.p), _SHARED[kind], alpha=False)  # type: ignore[arg-type]
    if kind is nn.AlphaDropout:
        return KeyedDropout(float(module.p), 0, alpha=True)  # type: ignore[arg-type]
    return None


class KeyedFunctions(TorchFunctionMode):
    """Gives ``F.dropout`` and attention dropout their randomness from a key.

    ``seen`` counts the calls it replaced.
    """

    def __init__(self, key: Tensor) -> None:
        super().__init__()
        self.key = key
        self.seen = 0
        self.forward_done = False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (F.dropout, F.alpha_dropout, F.dropout1d, F.dropout2d, F.dropout3d):
            return self._dropout(func, *args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return self._attention(func, *args, **kwargs)
        return func(*args, **kwargs)

    def _next_key(self) -> Tensor:
        if self.forward_done:
            raise RuntimeError(
                "functional dropout inside an activation checkpoint cannot repeat its"
                " mask; use a dropout module there, or switch checkpointing off"
            )
        key = fold_in(self.key, self.seen)
        self.seen += 1
        return key

    def _dropout(
        self,
        func: Any,
        input: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor:
        del inplace
        if not training or p == 0:
            return input
        if func is F.alpha_dropout:
            return keyed_alpha_dropout(self._next_key(), input, p)
        shared = {F.dropout1d: 1, F.dropout2d: 2, F.dropout3d: 3}.get(func, 0)
        return keyed_dropout(self._next_key(), input, p, shared)

    def _attention(
        self,
        func: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if dropout_p == 0:
            return func(  # type: ignore[no-any-return]
                query,
                key,
                value,
                attn_mask,
                0.0,
                is_causal,
                scale=scale,
                enable_gqa=enable_gqa,
            )
        if enable_gqa:
            repeats = query.shape[-3] // key.shape[-3]
            key = key.repeat_interleave(repeats, -3)
            value = value.repeat_interleave(repeats, -3)
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = (query @ key.transpose(-2, -1)) * factor
        if is_causal:
            causal = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~causal.to(scores.device), float("-inf"))
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, float("-inf"))
        elif attn_mask is not None:
            scores = scores + attn_mask
        weights = keyed_dropout(self._next_key(), scores.softmax(-1), dropout_p)
        return weights @ value
