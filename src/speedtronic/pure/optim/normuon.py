"""NorMuon (arXiv:2510.05491, algorithm 1): neurons that step alike, on top of Muon.

Orthogonalization leaves rows, the weights of one neuron each, of very different size.
Here each is divided by the root of its running mean square, and the matrix then gets
back the norm it came with::

    chain(scale_by_muon(), scale_by_row_moments())

As in the authors' program, and unlike algorithm 1, which fixes the norm at
``0.2 sqrt(rows columns)``: that is what ``adjust="match_rms_adamw"`` of `scale_by_muon`
amounts to. Bias correction is absent because the norm makes up for it.
"""

import torch
from torch import Tensor

from speedtronic.pure.optim.base import (
    Clock,
    Hyperparameter,
    Optimizer,
    check_range,
    value_at,
)
from speedtronic.pure.tree import state
from speedtronic.pure.types import Params


@state
class RowMomentState:
    """Running means of the squares in each row."""

    square: Params  # f32[rows, 1] for a parameter f32[rows, columns]


def scale_by_row_moments(beta2: Hyperparameter = 0.95, eps: float = 1e-8) -> Optimizer:
    """Give the rows of each matrix one size over time, and the matrix its norm.

    A factor that all rows share changes nothing, so that it may follow Muon's
    adjustment for a matrix's shape. A matrix of zeros stays zero.

    Args:
        beta2: decay of the running mean squares.
        eps: added to their roots, and the least norm that is divided by.

    Raises:
        ValueError: for a constant out of range.

    >>> uneven, alike = {"w": torch.tensor([[8.0], [1.0]])}, scale_by_row_moments()
    >>> clock = Clock(step=torch.tensor(0))
    >>> alike.update(uneven, alike.init(uneven), uneven, clock)[0]["w"].mT
    tensor([[5.7009, 5.7009]])
    """
    check_range("beta2", beta2, below=1.0)
    check_range("eps", eps)

    def init(params: Params) -> RowMomentState:
        return RowMomentState(
            square={
                n: p.new_zeros((*p.shape[:-1], 1), dtype=torch.float32)
                for n, p in params.items()
            }
        )

    def update(
        grads: Params, opt_state: RowMomentState, params: Params, clock: Clock
    ) -> tuple[Params, RowMomentState]:
        del params
        factor = value_at(beta2, clock)
        square = {
            n: opt_state.square[n].lerp(_mean_square(g), 1 - factor)
            for n, g in grads.items()
        }
        updates = {
            n: _with_norm_of(g, g / (square[n].sqrt() + eps), eps)
            for n, g in grads.items()
        }
        return updates, RowMomentState(square=square)

    return Optimizer(init, update)


def _mean_square(matrix: Tensor) -> Tensor:
    """Of each row; 0 for rows without elements."""
    total: Tensor = (matrix * matrix).sum(dim=-1, keepdim=True)
    return total / max(1, matrix.shape[-1])


def _with_norm_of(model: Tensor, matrix: Tensor, eps: float) -> Tensor:
    wanted = torch.linalg.vector_norm(model, dim=(-2, -1), keepdim=True)
    found = torch.linalg.vector_norm(matrix, dim=(-2, -1), keepdim=True)
    result: Tensor = matrix * (wanted / found.clamp(min=eps))
    return result
