"""The rules of aggregation by name: what numbers each takes, how many deltas it needs.

A config and a manifest name a rule; `speedtronic.pure.robust` says what it does. Here
is what can be known without a tensor, so that a config can be checked.
"""

import math
from typing import Literal

Rule = Literal[
    "mean",
    "token_mean",
    "norm_clip",
    "median",
    "trimmed_mean",
    "geometric_median",
    "centered_clip",
    "multi_krum",
]
Number = Literal["cap", "clip", "faulty"]

NUMBERS: dict[Rule, tuple[Number, ...]] = {
    "mean": (),
    "token_mean": ("cap",),
    "norm_clip": ("clip",),
    "median": (),
    "trimmed_mean": ("faulty",),
    "geometric_median": (),
    "centered_clip": ("clip",),
    "multi_krum": ("faulty",),
}
NAMES: tuple[Rule, ...] = tuple(NUMBERS)


def rule_named(name: str) -> Rule | None:
    """The rule of that name, or None.

    >>> rule_named("median"), rule_named("majority")
    ('median', None)
    """
    return name if name in NUMBERS else None


def least(rule: Rule, faulty: int = 1) -> int:
    """The fewest deltas for which a rule is defined.

    Means take any number. Of two deltas nothing can tell which one is wrong, so robust
    rules begin at three; to drop ``faulty`` on either side, `trimmed_mean` needs one
    more than twice that, and `multi_krum` three more (arXiv:1703.02757, section 3).

    >>> [least(rule) for rule in ("mean", "median", "trimmed_mean", "multi_krum")]
    [1, 3, 3, 5]
    >>> least("trimmed_mean", faulty=2), least("multi_krum", faulty=2)
    (5, 7)
    """
    match rule:
        case "mean" | "token_mean":
            return 1
        case "trimmed_mean":
            return max(3, 2 * faulty + 1)
        case "multi_krum":
            return 2 * faulty + 3
        case _:
            return 3


def number_problems(
    *, cap: float = 2.0, clip: float = 1.0, faulty: int = 1
) -> list[str]:
    """Why numbers of rules cannot be used, one line each, beginning with the name.

    >>> number_problems(cap=0.5)
    ['cap: expected a finite number >= 1, found 0.5']
    """
    told = []
    if not (math.isfinite(cap) and cap >= 1):
        told.append(f"cap: expected a finite number >= 1, found {cap!r}")
    if not (math.isfinite(clip) and clip > 0):
        told.append(f"clip: expected a finite number > 0, found {clip!r}")
    if faulty < 0:
        told.append(f"faulty: expected at least 0, found {faulty!r}")
    return told
