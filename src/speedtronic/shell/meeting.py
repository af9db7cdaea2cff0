"""The training thread's side of a round: what happens between two steps of the loop.

The loop gives its state away only here, and takes another one in only here.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from torch import Tensor

from speedtronic.pure.delta import Weights
from speedtronic.pure.tree import tree_map
from speedtronic.shell.checkpoint import owned
from speedtronic.shell.distributed.coordinator import Coordinator, HandedOver
from speedtronic.shell.distributed.node import shared_weights

if TYPE_CHECKING:
    from speedtronic.shell.loop import Loop

logger = logging.getLogger(__name__)
PATIENCE_S = 0.05  # how soon a signal is seen while training is paused


class Meeting:
    """Meets the other nodes of a run on behalf of a loop; see `Training`."""

    def __init__(self, loop: "Loop", coordinator: Coordinator) -> None:
        self._loop, self._coordinator = loop, coordinator

    @property
    def may_save(self) -> bool:
        """Whether a checkpoint may be taken at this boundary."""
        return self._coordinator.may_save

    def saved(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The round's part of a checkpoint."""
        return self._coordinator.saved()

    def meet(self, steps: int, tokens: int) -> None:
        """At a boundary: hand over, take in, and wait while training is paused.

        Raises:
            TrainingError: the node cannot go on in this run.
        """
        self._boundary(steps, tokens)
        coordinator = self._coordinator
        while not (coordinator.may_train or self._loop.tools.interrupt):
            self._pause()
            self._boundary(0, 0)

    def leave(self) -> None:
        """Deliver what can be delivered, and end the node's part.

        Raises:
            TrainingError: a person has to look.
        """
        coordinator = self._coordinator
        coordinator.stop(self._loop.config.distributed.delta_upload_shutdown_timeout)
        while not coordinator.stopped:
            self._boundary(0, 0)
            self._pause()

    def _pause(self) -> None:
        self._coordinator.wait(PATIENCE_S)
        if self._loop.tools.conductor is not None:
            self._loop.tools.conductor.wait()

    def _boundary(self, steps: int, tokens: int) -> None:
        cursor = self._loop.counters.cursor
        self._coordinator.boundary(self, steps=steps, tokens=tokens, cursor=cursor)
        for kind, fields in self._coordinator.events():
            self._loop.tools.log.event(kind, self._loop.counters.position, **fields)

    # ------------------------------------------- asked by the coordinator

    def weights(self) -> Weights:
        """The shared part of the model, on the CPU."""
        loop = self._loop
        shared = shared_weights(loop.config, loop.session, loop.state)
        on_cpu: Weights = tree_map(lambda x: x.detach().cpu(), shared)
        return on_cpu

    def install(
        self, weights: Weights | None, cursor: int | None, reset_optimizer: bool
    ) -> None:
        """Go on with other weights, at another place in the data."""
        loop = self._loop
        if loop.tools.conductor is not None:
            loop.tools.conductor.install(weights, cursor, reset_optimizer)
        loop.stepper.install(weights, cursor, reset_optimizer)

    def hand_over(self) -> HandedOver:
        """Copy everything that a checkpoint holds, as it is now."""
        loop = self._loop
        snapshot = loop.snapshot()
        state, tensors = owned((snapshot.state, dict(snapshot.tensors)))
        copy = attrs.evolve(snapshot, state=state, tensors=tensors)
        writer = loop.tools.writer
        assert writer is not None  # a config without checkpoints is refused

        def save(values: Mapping[str, Any], more: Mapping[str, Tensor]) -> None:
            whole = attrs.evolve(
                copy,
                values={**copy.values, **values},
                tensors={**copy.tensors, **more},
            )
            writer.save_now(whole, replace=True)

        return HandedOver(
            weights=shared_weights(loop.config, loop.session, state), save=save
        )
