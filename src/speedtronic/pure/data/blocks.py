"""Rows cut from one long stream of tokens at equal distances.

A row of T positions needs T + 1 tokens: inputs and, one later, labels. Rows share
one token with the next, so that each token but the first of a cut is a target once.

- fixed cuts (``blocks``): rows start at 0, T, 2T, ...; there are (N - 1) // T.
- moving cuts (``offset``): the first epoch starts at 0, every later one at a keyed
  random offset below T, so that a token is seen at other positions of the context.
  The number of rows is the same in all epochs: max(1, N // T - 1).

What does not fill a row, at the end and before the offset, is left out of that
epoch: fewer than T tokens with fixed cuts, fewer than 2 T with moving ones.
"""

import attrs
import torch
from torch import Tensor

from speedtronic.pure.random import fold_in

_OFFSET = 0x0FF5E7  # separates the offset's randomness from the order's


@attrs.frozen(kw_only=True)
class Cuts:
    """How ``tokens`` tokens are cut into rows of ``block`` positions.

    >>> Cuts(tokens=9, block=8, moving=True).rows
    1
    >>> Cuts(tokens=100, block=8, moving=False).rows
    12
    """

    tokens: int
    block: int
    moving: bool

    @property
    def rows(self) -> int:
        """Rows per epoch; 0 if the tokens do not fill one."""
        fixed = max(0, self.tokens - 1) // self.block
        return (
            min(fixed, max(1, self.tokens // self.block - 1)) if self.moving else fixed
        )

    @property
    def offsets(self) -> int:
        """How many places the first row may start at."""
        slack = self.tokens - self.rows * self.block
        return min(self.block, slack) if self.moving else 1


def starts(cuts: Cuts, row: Tensor, epoch: Tensor, key: Tensor) -> Tensor:
    """The token at which each row starts.

    Args:
        cuts: tokens, block length and whether the cuts move.
        row: i64[n], in [0, cuts.rows).
        epoch: i64[n].
        key: i64[n, 2], the key of each epoch.

    Returns:
        i64[n]; the row reads the ``block + 1`` tokens from there.

    >>> from speedtronic.pure.random import key_from_seed
    >>> first = torch.zeros(2, dtype=torch.int64)
    >>> keys = key_from_seed(0).expand(2, 2)
    >>> starts(Cuts(tokens=99, block=8, moving=True), torch.arange(2), first, keys)
    tensor([0, 8])
    """
    if cuts.offsets <= 1:
        return row * cuts.block
    offset = fold_in(key, _OFFSET)[..., 0] % cuts.offsets
    return torch.where(epoch == 0, 0, offset) + row * cuts.block
