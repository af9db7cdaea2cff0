"""A made-up stream of tokens, for runs without data: short arithmetic progressions.

Every `RUN` tokens a new start and stride are drawn from the key; between draws the
next token follows from the last two, so a model that learns shows a falling loss.
"""

from torch import Tensor

from speedtronic.pure.random import fold_in

RUN = 64  # tokens of one progression
STRIDES = 8


def synthetic_tokens(index: Tensor, vocab_size: int, key: Tensor) -> Tensor:
    """The tokens at ``index``, wherever that is.

    Args:
        index: i64[...], positions in the stream.
        vocab_size: ids are below it.
        key: i64[2].

    Returns:
        i64[...].

    >>> import torch
    >>> from speedtronic.pure.random import key_from_seed
    >>> synthetic_tokens(torch.arange(5), 100, key_from_seed(0))
    tensor([71, 79, 87, 95,  3])
    """
    drawn = fold_in(key.expand(*index.shape, 2), index // RUN)
    start, stride = drawn[..., 0], 1 + drawn[..., 1] % STRIDES
    return (start + index % RUN * stride) % vocab_size
