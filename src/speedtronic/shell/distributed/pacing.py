"""How many inner steps a node takes beside faster ones, as the rounds tell it."""

from speedtronic.pure.pace import steps_by_progress
from speedtronic.pure.round.manifest import Manifest

ROUNDS = 2  # between two looks at who is how fast


class Pace:
    """Compares how far all nodes came between two rounds.

    Args:
        inner_steps: what the fastest node takes; None keeps every node at its own.
    """

    def __init__(self, inner_steps: int | None) -> None:
        self._inner_steps = inner_steps
        self._cursors: dict[str, int] = {}  # by stream, at an earlier round
        self._round = -ROUNDS

    def steps(self, manifest: Manifest, stream: str) -> int | None:
        """The inner steps for a node from now on; None where nothing is known."""
        if self._inner_steps is None or manifest.round - self._round < ROUNDS:
            return None
        before, self._round = self._cursors, manifest.round
        self._cursors = {r.stream: r.cursor for r in manifest.ledger}
        return steps_by_progress(before, self._cursors, stream, self._inner_steps)
