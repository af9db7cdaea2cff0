"""Draw the next token from logits, with a key as the only source of chance."""

import torch
from torch import Tensor

from speedtronic.pure.random import uniform


def sample(
    logits: Tensor,
    key: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
) -> Tensor:
    """One token from softmax(logits / temperature), by the Gumbel-max trick.

    Args:
        logits: float[..., V].
        key: i64[2].
        temperature: 0 takes the most likely token, whatever the key.
        top_k: draw only from the ``top_k`` most likely tokens (arXiv:1805.04833).

    Returns:
        i64[...]: a token for each row of logits.

    Raises:
        ValueError: for a negative temperature or a ``top_k`` below 1.

    >>> from speedtronic.pure.random import key_from_seed
    >>> logits = torch.tensor([0.0, 5.0, 1.0])
    >>> sample(logits, key_from_seed(0), temperature=0.0)
    tensor(1)
    >>> sample(logits, key_from_seed(0), temperature=100.0, top_k=2) in (1, 2)
    True
    """
    if temperature < 0:
        raise ValueError(f"temperature must be at least 0, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    if temperature == 0:
        return logits.argmax(-1)
    scores = logits.to(torch.float32)
    count = logits.shape[-1] if top_k is None else min(top_k, logits.shape[-1])
    best, tokens = scores.topk(count, dim=-1)
    noise = -torch.log(-torch.log(uniform(key, tuple(best.shape))))
    choice = (best / temperature + noise).argmax(-1, keepdim=True)
    return tokens.gather(-1, choice).squeeze(-1)
