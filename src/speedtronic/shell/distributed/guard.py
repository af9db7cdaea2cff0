"""The leader's own judgement of a round, on held-out data, before it is published.

It has a model and a reader of its own, so that the training beside it is left alone.
What it sees decides which deltas the leader refuses, and the manifest says why; nobody
else has to come to the same numbers.
"""

import itertools
import math

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config
from speedtronic.pure.delta import Weights
from speedtronic.pure.tree import evolve, tree_map
from speedtronic.shell.data import open_data
from speedtronic.shell.evaluate import evaluate
from speedtronic.shell.paths import token_folder
from speedtronic.shell.session import build_session


class Guard:
    """Judges global models.

    Args:
        config: of the node; its ``distributed.guard`` is the bound.

    Raises:
        ConfigError: nothing is held out.
        SpeedtronicError: data or model cannot be had.
    """

    def __init__(self, config: Config) -> None:
        section = config.distributed
        if section.guard is None:
            raise ConfigError("distributed.guard: expected a bound, found none")
        self.bound = section.guard
        self._data = open_data(config, directory=token_folder(config))
        if not self._data.has_validation:
            self._data.close()
            raise ConfigError(
                "distributed.guard: nothing is held out to judge a round by; set "
                "data.validation_fraction or data.validation_path, or take it away"
            )
        self._session = build_session(
            config, self._data.train_batch(0).micro_batches[0]
        )
        self._size = config.evaluation.batch_size or config.data.micro_rows
        self._batches = section.guard_batches

    def loss(self, weights: Weights) -> float:
        """Mean loss of a global model over some held-out batches, in nats per target.

        Args:
            weights: on the CPU; they are copied.

        Returns:
            NaN where the model computes nothing that is finite.
        """
        session = self._session
        moved = tree_map(lambda x: x.detach().clone().to(session.device), weights)
        state = evolve(
            session.initial,
            params=moved.params,
            buffers=session.initial.buffers | moved.buffers,
        )
        batches = itertools.islice(
            self._data.validation_batches(self._size), self._batches
        )
        found = evaluate(session.evaluation_loss, state, batches)
        return math.nan if found is None else found.loss

    def close(self) -> None:
        """Let the data go."""
        self._data.close()
