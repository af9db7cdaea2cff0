"""Muon: momentum whose matrices are orthogonalized (Keller Jordan, 2024).

Newton-Schulz iterations replace the singular values of the momentum by values near
1, with Keller Jordan's coefficients or those of Polar Express (arXiv:2505.16932).
Muon+ (arXiv:2602.21545) then normalizes rows and columns. Matrices of one shape go
through the iteration as one batch.

Muon is for hidden matrices only, see `muon_labels`. Convolutions, embeddings, heads,
norms, biases and vectors belong to another optimizer.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from speedtronic.pure.optim.base import (
    Clock,
    Hyperparameter,
    Optimizer,
    check_range,
    value_at,
)
from speedtronic.pure.optim.decay import DecayMask, decay_everything
from speedtronic.pure.optim.roles import Role
from speedtronic.pure.optim.scale import descend
from speedtronic.pure.tree import state
from speedtronic.pure.types import Params

Triple: TypeAlias = tuple[float, float, float]

KELLER: Triple = (3.4445, -4.7750, 2.0315)
POLAR_EXPRESS: tuple[Triple, ...] = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
# Polar Express diverges above 1, so that its start is kept that much below.
POLAR_EXPRESS_MARGIN = 1.02


@state
class MuonState:
    """The momentum buffer of each matrix."""

    momentum: Params  # f32


def muon(
    learning_rate: Hyperparameter = 1e-3,
    momentum: Hyperparameter = 0.95,
    nesterov: bool = True,
    ns_steps: int = 5,
    weight_decay: Hyperparameter = 0.1,
    adjust: str = "original",
    eps: float = 1e-7,
    coefficients: str = "keller",
    plus: bool = False,
    plus_eps: float = 1e-8,
    iteration_dtype: torch.dtype = torch.float32,
    mask: DecayMask = decay_everything,
    weight_decay_follows_schedule: bool = True,
) -> Optimizer:
    """Muon with the defaults of ``torch.optim.Muon``; that one iterates in bfloat16.

    Args:
        learning_rate: step size, before the adjustment for a matrix's shape.
        momentum: decay of the running mean of the gradient.
        nesterov: look one step ahead of the mean.
        ns_steps: Newton-Schulz iterations.
        weight_decay: decoupled, by the unadjusted learning rate.
        adjust: see `shape_adjustment`.
        eps: least norm that a matrix is divided by.
        coefficients: of the iterations, "keller" or "polar_express".
        plus: normalize rows, then columns, after the iterations.
        plus_eps: added to the squared norms there.
        iteration_dtype: of the iterations; bfloat16 where that is faster.
        mask: which parameters decay.
        weight_decay_follows_schedule: see `descend`.

    Raises:
        ValueError: for a constant out of range; from ``init``, for a parameter that
            is no matrix.

    >>> w = {"w": torch.diag(torch.tensor([4.0, 4.0]))}
    >>> step, clock = muon(1.0, weight_decay=0.0), Clock(step=torch.tensor(0))
    >>> step.update(w, step.init(w), w, clock)[0]["w"].round(decimals=1)
    tensor([[-1.1000, -0.0000],
            [-0.0000, -1.1000]])
    """
    direction = scale_by_muon(
        momentum,
        nesterov,
        ns_steps,
        adjust,
        eps,
        coefficients,
        plus,
        plus_eps,
        iteration_dtype,
    )
    return descend(
        direction, learning_rate, weight_decay, mask, weight_decay_follows_schedule
    )


def scale_by_muon(
    momentum: Hyperparameter = 0.95,
    nesterov: bool = True,
    ns_steps: int = 5,
    adjust: str = "original",
    eps: float = 1e-7,
    coefficients: str = "keller",
    plus: bool = False,
    plus_eps: float = 1e-8,
    iteration_dtype: torch.dtype = torch.float32,
) -> Optimizer:
    """The direction of `muon`, which explains the arguments.

    >>> scale_by_muon().init({"bias": torch.zeros(3)})
    Traceback (most recent call last):
    ValueError: Muon takes matrices only, found bias of shape [3]
    """
    check_range("momentum", momentum, below=1.0)
    shape_adjustment(adjust, 1, 1)  # raises for an unknown name
    triples = iteration_coefficients(coefficients, ns_steps)
    margin = POLAR_EXPRESS_MARGIN if coefficients == "polar_express" else 1.0

    def init(params: Params) -> MuonState:
        others = [
            f"{n} of shape {list(p.shape)}" for n, p in params.items() if p.ndim != 2
        ]
        if others:
            raise ValueError(f"Muon takes matrices only, found {', '.join(others)}")
        zeros = {n: torch.zeros_like(p, dtype=torch.float32) for n, p in params.items()}
        return MuonState(momentum=zeros)

    def update(
        grads: Params, opt_state: MuonState, params: Params, clock: Clock
    ) -> tuple[Params, MuonState]:
        del params
        factor = value_at(momentum, clock)
        buffers = {
            n: opt_state.momentum[n].lerp(g, 1 - factor) for n, g in grads.items()
        }
        raw = buffers
        if nesterov:
            raw = {n: buffers[n].lerp(g, 1 - factor) for n, g in grads.items()}
        updates: Params = {}
        for names in _by_shape(raw):
            batch = torch.stack([raw[n] for n in names])
            result = orthogonalize(batch, triples, eps, margin, iteration_dtype)
            if plus:
                result = normalize_rows_and_columns(result, plus_eps)
            rows, columns = batch.shape[-2:]
            result = result * shape_adjustment(adjust, rows, columns)
            updates |= zip(names, result.unbind(), strict=True)
        ordered = {name: updates[name] for name in grads}
        return ordered, MuonState(momentum=buffers)

    return Optimizer(init, update)


def iteration_coefficients(coefficients: str, ns_steps: int) -> tuple[Triple, ...]:
    """One triple per iteration; Polar Express repeats its last one after five.

    >>> iteration_coefficients("keller", 2)
    ((3.4445, -4.775, 2.0315), (3.4445, -4.775, 2.0315))
    """
    if ns_steps < 1:
        raise ValueError(f"ns_steps: expected at least 1, found {ns_steps}")
    known = {"keller": (KELLER,), "polar_express": POLAR_EXPRESS}
    if coefficients not in known:
        raise ValueError(
            f"coefficients: expected one of {list(known)}, found {coefficients!r}"
        )
    triples = known[coefficients]
    return tuple(triples[min(i, len(triples) - 1)] for i in range(ns_steps))


def orthogonalize(
    matrices: Tensor,
    triples: Sequence[Triple] = (KELLER,) * 5,
    eps: float = 1e-7,
    margin: float = 1.0,
    iteration_dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The orthogonal factor of each matrix, roughly: singular values near 1.

    ``X <- a X + (b A + c A A) X`` with ``A = X X^T``, from ``X`` of norm at most
    ``1 / margin``. A zero matrix stays zero.

    Args:
        matrices: f32[num, rows, columns].
        triples: ``(a, b, c)`` of each iteration.
        eps: least norm to divide by.
        margin: how far the first norm stays below 1.
        iteration_dtype: of the products.

    Returns:
        Of the same shape and dtype as ``matrices``.

    >>> orthogonalize(torch.tensor([[[3.0, 0.0], [0.0, 3.0]]])).round(decimals=1)
    tensor([[[1.1000, 0.0000],
             [0.0000, 1.1000]]])
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    norm = torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True)
    x = (x / (norm * margin).clamp(min=eps)).to(iteration_dtype)
    for a, b, c in triples:
        gram = x @ x.mT
        correction = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, correction, x, beta=a)
    result: Tensor = x.mT if tall else x
    return result.to(matrices.dtype)


def normalize_rows_and_columns(matrices: Tensor, eps: float = 1e-8) -> Tensor:
    """Give every row, then every column, norm 1 (Muon+, "row_col").

    >>> normalize_rows_and_columns(torch.diag(torch.tensor([2.0, 0.5])))
    tensor([[1., 0.],
            [0., 1.]])
    """
    for dim in (-1, -2):
        squares = (matrices * matrices).sum(dim=dim, keepdim=True)
        matrices = matrices / (squares + eps).sqrt()
    return matrices


def shape_adjustment(adjust: str, rows: int, columns: int) -> float:
    """What the update of a matrix is multiplied by.

    "original" is Keller Jordan's ``sqrt(max(1, rows / columns))``;
    "match_rms_adamw" is ``0.2 sqrt(max(rows, columns))`` (arXiv:2502.16982), which
    gives updates the size of AdamW's, so that its learning rate can be kept.

    >>> shape_adjustment("original", 4, 1), shape_adjustment("original", 1, 4)
    (2.0, 1.0)
    """
    if adjust == "original":
        return math.sqrt(max(1.0, rows / max(1, columns)))
    if adjust == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    raise ValueError(
        f"adjust: expected 'original' or 'match_rms_adamw', found {adjust!r}"
    )


def muon_labels(params: Params, roles: Mapping[str, Role]) -> dict[str, str]:
    """Who optimizes each parameter: hidden matrices go to Muon, the rest to AdamW.

    >>> params = {"wte": torch.ones(4, 2), "up": torch.ones(2, 2), "b": torch.ones(2)}
    >>> muon_labels(params, {"wte": "embedding", "up": "hidden", "b": "bias"})
    {'wte': 'adamw', 'up': 'muon', 'b': 'adamw'}
    """
    return {
        name: "muon" if roles[name] == "hidden" and value.ndim == 2 else "adamw"
        for name, value in params.items()
    }


def _by_shape(matrices: Params) -> list[list[str]]:
    """Names in groups of one shape."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, value in matrices.items():
        groups.setdefault(tuple(value.shape), []).append(name)
    return list(groups.values())
