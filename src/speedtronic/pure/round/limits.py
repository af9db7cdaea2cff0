"""The numbers that every leader of a run must share; they never change."""

import math

import attrs

MAX_PER_ROUND = 20  # two files each, and room for the model and for housekeeping
MAX_DECISIONS = 4096  # window x per_round: the ledger holds at most twice as many


@attrs.frozen(kw_only=True)
class Limits:
    """The numbers that every leader must share; fixed with the lineage.

    A register may be forgotten only when no delta that could follow it can still be
    accepted, hence ``window >= staleness``. With a staleness of 0 a node whose upload
    takes as long as a round would never be counted.
    """

    staleness: int = 8  # a delta may be based on a round this far back
    window: int = 64  # rounds for which a decision is remembered
    per_round: int = 16  # deltas accepted in one round
    max_norm: float = 0.0  # a larger delta is refused; 0 for no bound
    norm_ratio: float = 0.0  # one so many times larger than the median is refused; 0
    strikes: int = 3  # so many refused or clipped in a row set a node aside; 0 never do
    aside: int = 8  # for so many rounds

    def problems(self) -> list[str]:
        """One line per mistake.

        >>> Limits(staleness=9, window=8).problems()
        ['window: expected at least the staleness 9, found 8']
        """
        told = []
        if not 1 <= self.staleness <= 1000:
            told.append(f"staleness: expected 1 to 1000, found {self.staleness}")
        if self.window < self.staleness:
            told.append(
                f"window: expected at least the staleness {self.staleness}, "
                f"found {self.window}"
            )
        if self.window * self.per_round > MAX_DECISIONS:
            told.append(
                f"window x per_round: expected at most {MAX_DECISIONS}, "
                f"found {self.window * self.per_round}"
            )
        if not 1 <= self.per_round <= MAX_PER_ROUND:
            told.append(
                f"per_round: expected 1 to {MAX_PER_ROUND}, found {self.per_round}"
            )
        for what in ("max_norm", "norm_ratio"):
            value = getattr(self, what)
            if not 0 <= value < math.inf or 0 < value <= 1 and what == "norm_ratio":
                least = "more than 1" if what == "norm_ratio" else "above 0"
                told.append(f"{what}: expected 0 or {least}, found {value}")
        if not 0 <= self.strikes <= 1000:
            told.append(f"strikes: expected 0 to 1000, found {self.strikes}")
        if not 1 <= self.aside <= 1000:
            told.append(f"aside: expected 1 to 1000, found {self.aside}")
        return told
