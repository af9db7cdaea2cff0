"""Keys: all randomness in a run is a function of one.

A key is an int64 tensor of shape [2] that holds two 32-bit words, as in JAX. Bits
come from a counter-based integer hash, so that they are the same in eager, compiled
and vmapped code, and the global generator is never touched. This is not
cryptography.

Everything stays below 2**63: words have 32 bits, multipliers have 31.
"""

import math

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_MULTIPLIER_A = 0x7FEB352D  # Wellons, "Prospecting for hash functions" (2018)
_MULTIPLIER_B = 0x45D9F3B
_GOLDEN = 0x4F1BBCDD  # odd, 2**32 over twice the golden ratio


def key_from_seed(seed: int) -> Tensor:
    """The key that belongs to a non-negative integer seed.

    >>> key_from_seed(1234)
    tensor([   0, 1234])
    """
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must be in [0, 2**63), got {seed}")
    return torch.tensor([seed >> 32, seed & _MASK], dtype=torch.int64)


def fold_in(key: Tensor, data: Tensor | int) -> Tensor:
    """A new key from a key and an integer (a step, a node number, a call number).

    Args:
        key: i64[..., 2].
        data: an int or i64[...] that broadcasts against ``key[..., 0]``; its two
            32-bit words count separately.

    >>> key = key_from_seed(0)
    >>> bool((fold_in(key, 1) != fold_in(key, 2)).any())
    True
    """
    word = torch.as_tensor(data, dtype=torch.int64, device=key.device)
    words = torch.stack([word & _MASK, (word >> 32) & _MASK], dim=-1)
    mixed = _mix((key ^ words) + _GOLDEN)
    # Each half then depends on both, and the second on more than the first.
    return _mix(mixed + mixed.flip(-1) * _GOLDEN + key.flip(-1))


def split(key: Tensor, num: int) -> Tensor:
    """``num`` independent keys, i64[num, 2]."""
    index = torch.arange(num, dtype=torch.int64, device=key.device)
    return fold_in(key.unsqueeze(0).expand(num, 2), index)


def bits(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Random 32-bit words as i64[shape], one per position."""
    counter = torch.arange(math.prod(shape), dtype=torch.int64, device=key.device)
    words = _mix(_mix((counter & _MASK) ^ key[0]) + key[1] + (counter >> 32))
    return words.reshape(shape)


def uniform(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """f32[shape] in [0, 1), 24 random bits each.

    >>> u = uniform(key_from_seed(3), (1000,))
    >>> bool((u >= 0).all() and (u < 1).all()), round(float(u.mean()), 1)
    (True, 0.5)
    """
    return (bits(key, shape) >> 8).to(torch.float32) * 2.0**-24


def key_to_int(key: Tensor) -> int:
    """The key as one 63-bit integer, for seeding a generator at the edge.

    >>> key_to_int(key_from_seed(1234))
    1234
    """
    high, low = (int(word) for word in key.tolist())
    return ((high << 32) | low) & (2**63 - 1)


def _mix(x: Tensor) -> Tensor:
    """A 32-bit finaliser: every input bit moves every output bit."""
    x = x & _MASK
    x = ((x ^ (x >> 16)) * _MULTIPLIER_A) & _MASK
    x = ((x ^ (x >> 15)) * _MULTIPLIER_B) & _MASK
    return x ^ (x >> 16)
