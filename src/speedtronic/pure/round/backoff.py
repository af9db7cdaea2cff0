"""How long to wait before trying again: a function, no sleeping and no generator."""

from hashlib import sha256

LARGEST_EXPONENT = 60


def delay_s(initial_s: float, longest_s: float, attempt: int, who: str) -> float:
    """Seconds before attempt number ``attempt + 1``, doubling up to a longest wait.

    Between half of it and all of it is waited, a share that depends on ``who``, so
    that nodes which failed together do not come back together.

    >>> [round(delay_s(1.0, 60.0, attempt, "node-1"), 1) for attempt in (0, 1, 9)]
    [0.6, 1.8, 34.0]
    """
    exponent = min(attempt, LARGEST_EXPONENT)
    longest = min(longest_s, initial_s * 2.0**exponent)
    return longest * (0.5 + 0.5 * share(f"{who}/{attempt}"))


def share(text: str) -> float:
    """A number in [0, 1) that depends on a text only.

    >>> share("a") == share("a"), 0 <= share("b") < 1
    (True, True)
    """
    return int.from_bytes(sha256(text.encode()).digest()[:6], "big") / 2**48
