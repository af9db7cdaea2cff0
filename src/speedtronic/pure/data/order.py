"""The order of rows: a keyed permutation of [0, size) in constant memory.

An unbalanced Feistel network permutes the smallest power of two that holds the
range; an image outside the range is sent through again until it falls inside
(cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
So the row that is visited at any place of any epoch is one computation, and a
shuffle over a billion rows holds no list. This is not cryptography.

Deliberately absent: the inverse, which nothing needs.
"""

from torch import Tensor

_ROUNDS = 8
_MASK = 0xFFFFFFFF
_MULTIPLIER_A = 0x7FEB352D  # Wellons, "Prospecting for hash functions" (2018)
_MULTIPLIER_B = 0x45D9F3B
LARGEST = 2**62  # rows that an order can hold


def permute(index: Tensor, size: int, key: Tensor) -> Tensor:
    """Where a keyed permutation of ``range(size)`` sends each index.

    Args:
        index: i64[...], every element in [0, size).
        size: number of rows, at least 1.
        key: i64[2] for one permutation, or i64[..., 2] with a key per index.

    Returns:
        i64[...] of the shape of ``index``.

    Raises:
        ValueError: if ``size`` is not in [1, 2**62].

    >>> import torch
    >>> from speedtronic.pure.random import key_from_seed
    >>> image = permute(torch.arange(6), 6, key_from_seed(0))
    >>> sorted(image.tolist())
    [0, 1, 2, 3, 4, 5]
    """
    if not 1 <= size <= LARGEST:
        raise ValueError(f"size must be in [1, 2**62], got {size}")
    bits = max(2, (size - 1).bit_length())
    key = key.expand(*index.shape, 2)
    image = _feistel(index, bits, key)
    outside = image >= size
    while bool(outside.any()):
        again = _feistel(image[outside], bits, key[outside])
        image = image.masked_scatter(outside, again)
        outside = image >= size
    return image


def _feistel(index: Tensor, bits: int, key: Tensor) -> Tensor:
    """Permute [0, 2**bits): the two parts of the word take turns hiding each other."""
    low_bits = bits // 2
    high_bits = bits - low_bits
    low, high = index & ((1 << low_bits) - 1), index >> low_bits
    word, stride = key[..., 0], key[..., 1] | 1
    for _ in range(_ROUNDS // 2):
        low = low ^ _scatter(high ^ word, low_bits)
        word = (word + stride) & _MASK
        high = high ^ _scatter(low ^ word, high_bits)
        word = (word + stride) & _MASK
    return (high << low_bits) | low


def _scatter(x: Tensor, bits: int) -> Tensor:
    """The upper ``bits`` of a 32-bit hash, which depend on every bit of ``x``."""
    x = (x * _MULTIPLIER_A) & _MASK
    x = ((x ^ (x >> 15)) * _MULTIPLIER_B) & _MASK
    return x >> (32 - bits)
