"""Models of one integer: training token t adds 256**t.

What was counted is read off the digits of a global model, exactly: a digit 2 is a
token counted twice, a digit 255 one that was taken out although it was not in.
"""

from collections.abc import Iterable

from attrs import define

from speedtronic.pure.round.events import Install

FIRST = 8  # smaller tokens tell initial models apart
TOKENS = 240
ONES = sum(1 << (8 * t) for t in range(TOKENS))
PARITY = tuple(sum(255 << (8 * t) for t in range(o, TOKENS, 2)) for o in (0, 1))
MODULUS = (1 << 61) - 1


def token(t: int) -> int:
    """The model in which token ``t`` was seen once."""
    return 1 << (8 * t)


def once(x: int) -> bool:
    """Whether every token is in it zero or one times."""
    return x >= 0 and not x & ~ONES


def tokens(x: int) -> set[int]:
    """The tokens that are in it at all."""
    found, t = set(), 0
    while x:
        digit = x & 255
        if digit >= 128:
            digit -= 256
        if digit:
            found.add(t)
        x = (x - digit) >> 8
        t += 1
    return found


def outer(weights: int, momentum: int, deltas: Iterable[int]) -> tuple[int, int]:
    """The outer step: the global descends along the sum; momentum is an exact fold."""
    total = sum(deltas)
    return weights - total, (3 * momentum + total) % MODULUS


@define
class Vectors:
    """Everything of the model's size that a node holds."""

    base: int = 0
    theta: int = 0
    error: int = 0
    cut: int = 0  # what leaves the progress when the pending delta counts
    sent: int = 0  # what the pending delta holds
    error_after: int = 0
    payload: str = ""  # the pending delta as it is sent: base - current
    cursor: int = 0
    bad: bool = False  # the local model is not finite

    @property
    def progress(self) -> int:
        """What the model moved since the base."""
        return self.theta - self.base

    def take_cut(self, codec: str, parity: int) -> None:
        """Progress and error buffer, as far as the codec sends them."""
        total = self.progress + self.error
        half = codec == "half" and total & PARITY[parity % 2]
        self.cut = self.progress
        self.sent = half or total
        self.error_after = total - self.sent
        self.payload = f"{-self.sent}{'nan' if self.bad else ''}"

    def install(self, effect: Install, base: int | None, pending: bool) -> list[int]:
        """Do what `Install` says; return what was given up by a rule.

        Args:
            effect: the rule.
            base: the new global, if there is one.
            pending: whether a cut is still pending afterwards.
        """
        progress, lost = self.progress, []
        stays = base is None or effect.carry
        if effect.settle == "count":
            progress -= self.cut if effect.inside else 0
            self.error = self.error_after
        elif effect.settle == "undo" and not (effect.inside and stays):
            progress -= self.cut if effect.inside else 0
            self.error = self.error_after + self.sent
        elif effect.settle == "drop":
            lost += [progress, self.error]
            lost += [] if effect.inside else [self.sent, self.error_after]
            progress, self.error = 0, 0
        if base is not None:
            if not effect.carry:
                inside = self.cut if pending and effect.inside else 0
                lost.append(progress - inside)
                progress = 0
            self.base = base
        self.theta = self.base + progress
        if effect.cursor is not None:
            self.cursor = effect.cursor
        self.bad = self.bad and progress != 0
        return lost

    def alive(self, pending: bool) -> set[int]:
        """The tokens that may still be delivered."""
        parts = [self.progress, self.error]
        parts += [self.sent, self.error_after] if pending else []
        return {t for part in parts for t in tokens(part)}
