"""The inner steps of one process: batches in, state forward.

Nothing is decided here. What to do at which step, and what to tell of it, is the
business of the loop, or of the first rank where several processes share a step.
"""

import logging

import attrs
from torch import Tensor

from speedtronic.pure.delta import Weights
from speedtronic.pure.inner import Accumulated, InnerState, StepInfo
from speedtronic.pure.optim import begin_again
from speedtronic.pure.random import fold_in
from speedtronic.pure.tree import evolve, tree_map
from speedtronic.shell.data import Data, Prefetcher
from speedtronic.shell.data.base import StepBatch
from speedtronic.shell.device import seeded
from speedtronic.shell.rank_sum import Counts, sum_over_ranks
from speedtronic.shell.ranks import Ranks
from speedtronic.shell.session import Session, on_device

logger = logging.getLogger(__name__)
_RANKS = 0x4A2C5  # separates the randomness of a node's ranks


@attrs.frozen(kw_only=True)
class Counters:
    """How far a run is; plain integers, known without asking the device."""

    position: int = 0  # steps done, skipped ones included
    samples: int = 0
    tokens: int = 0
    data_shift: int = 0  # how far the node's data is ahead of the position
    wall_seconds: float = 0.0
    timed_seconds: float = 0.0  # of a run bounded in minutes, at its last step

    @property
    def cursor(self) -> int:
        """The step of the data that is read next."""
        return self.position + self.data_shift


class Stepper:
    """Takes the steps of a session, alone or as one of several ranks.

    Args:
        session: what to compute with.
        data: of this process.
        state: of the node; dropout of the ranks after the first has keys of its own.
        counters: of the node.
        ranks: the processes that share each step, if there are several.
    """

    def __init__(
        self,
        session: Session,
        data: Data,
        state: InnerState,
        counters: Counters,
        ranks: Ranks | None = None,
    ) -> None:
        self._rank = 0 if ranks is None else ranks.place.rank
        if self._rank:
            key = fold_in(fold_in(state.key, _RANKS), self._rank)
            state = evolve(state, key=key)
        self.state, self.counters = state, counters
        self._session, self._data, self._ranks = session, data, ranks
        self._runner = session.runner(
            logger.warning, None if ranks is None else self._sum
        )
        self._prefetcher: Prefetcher | None = None
        self._own = self._counts = Counts()  # of the step being taken

    @property
    def compiled(self) -> bool:
        """Whether steps are compiled, as far as is known."""
        return self._runner.compiled

    def read(self) -> StepBatch:
        """The next step's micro-batches of this process, on the device."""
        if self._prefetcher is None:
            data = self._session.config.data
            pin = data.pin_memory
            self._prefetcher = Prefetcher(
                self._data,
                self.counters.cursor,
                2 if data.prefetch_factor is None else data.prefetch_factor,
                pin=self._session.device.type == "cuda" if pin is None else pin,
            )
        batch = self._prefetcher.next()
        there = on_device(batch.micro_batches, self._session.device)
        return attrs.evolve(batch, micro_batches=there)

    def step(self, batch: StepBatch, share: Tensor | None) -> StepInfo:
        """One step of the node.

        Args:
            batch: what `read` gave.
            share: f32[], of the time that has passed in a run bounded in minutes.
        """
        counters = self.counters
        self._own = self._counts = Counts(samples=batch.samples, tokens=batch.tokens)
        seed = _seed(self._session.config.run.seed, counters.position, self._rank)
        with seeded(seed, self._session.device):
            self.state, info = self._runner(self.state, batch.micro_batches, share)
        self.counters = attrs.evolve(
            counters,
            position=counters.position + 1,
            samples=counters.samples + self._counts.samples,
            tokens=counters.tokens + self._counts.tokens,
        )
        return info

    def read_on_from(self, cursor: int) -> None:
        """Take the next batch from another place in the data."""
        shift = cursor - self.counters.position
        if shift != self.counters.data_shift:
            self.counters = attrs.evolve(self.counters, data_shift=shift)
            self.close()

    def install(
        self, weights: Weights | None, cursor: int | None, reset_optimizer: bool
    ) -> None:
        """Go on with other weights (they are copied), at another place in the data."""
        state = self.state
        if weights is not None:
            device = self._session.device
            copied: Weights = tree_map(lambda x: x.to(device, copy=True), weights)
            state = evolve(
                state, params=copied.params, buffers=state.buffers | copied.buffers
            )
        if reset_optimizer:
            fresh = begin_again(self._session.optimizer, state.optimizer, state.params)
            state = evolve(state, optimizer=fresh)
        self.state = state
        if cursor is not None:
            self.read_on_from(cursor)

    def close(self) -> None:
        """Stop reading ahead."""
        if self._prefetcher is not None:
            self._prefetcher.close()
            self._prefetcher = None

    def _sum(self, total: Accumulated) -> Accumulated:
        assert self._ranks is not None
        total, self._counts = sum_over_ranks(self._ranks, total, self._own)
        return total


def _seed(seed: int, position: int, rank: int) -> int:
    """For generators that a model draws from by itself."""
    return (seed * 0x9E3779B1 + position + (rank << 40)) % 2**63
