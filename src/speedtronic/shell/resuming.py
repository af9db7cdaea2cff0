"""What a run goes on from: a checkpoint, checked against the run and its data."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from torch import Tensor

from speedtronic.errors import CheckpointError, RunError
from speedtronic.pure.inner import InnerState
from speedtronic.shell import generators
from speedtronic.shell.checkpoint_folder import resume
from speedtronic.shell.data import Data
from speedtronic.shell.rundir import RunDirectory
from speedtronic.shell.session import Session
from speedtronic.shell.stepper import Counters

logger = logging.getLogger(__name__)


@attrs.frozen(kw_only=True, eq=False)
class Resumed:
    """What a run goes on from."""

    path: Path  # of the checkpoint
    state: InnerState
    counters: Counters
    position: dict[str, Any]  # in the data
    values: Mapping[str, Any]  # all that the checkpoint holds beside the state
    tensors: Mapping[str, Tensor]
    reasons: tuple[str, ...]  # why the run is not exact any more


def find_resumed(
    run: RunDirectory, data: Data, session: Session, chosen: Path | None
) -> Resumed | None:
    """Find and load what to go on from, and set the data to where it was.

    Args:
        run: whose checkpoints are looked at.
        data: of the run.
        session: of the run.
        chosen: one checkpoint, where the user names it.

    Raises:
        CheckpointError, RunError: it does not fit this run.
    """
    if not run.resumed and chosen is None:
        return None
    try:
        found = resume(run.checkpoints, session.initial, run.run_id, chosen)
    except CheckpointError as error:
        if "scale.good_steps" not in str(error):
            raise
        raise RunError(
            f"precision.mode: {session.arithmetic.name} cannot go on from this"
            " checkpoint: fp16 has a loss scale, the others have none; set it back to"
            " what the run was trained with"
        ) from error
    if found is None:
        logger.info("%s holds no checkpoint yet, the run starts anew", run.path)
        return None
    snapshot = found.snapshot
    values = snapshot.values
    try:
        counters = Counters(**values["counters"])
        position, fingerprint = values["data"], values["fingerprint"]
        values["generators"]
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"{found.path} was not written by a training run: {error} in its values"
        ) from error
    if fingerprint != data.fingerprint:
        raise CheckpointError(
            f"{found.path}: the data has fingerprint {data.fingerprint}, the run began"
            f" with {fingerprint}; put it back, or begin another run"
        )
    data.load_state_dict(position)
    for note in found.notes:
        logger.warning("%s", note)
    logger.info("resumed from %s", found.path)
    return Resumed(
        path=found.path,
        state=snapshot.state,
        counters=counters,
        position=position,
        values=values,
        tensors=snapshot.tensors,
        reasons=snapshot.reasons,
    )


def restore_generators(resumed: Resumed) -> tuple[str, ...]:
    """Put the global generators back; why the run is not exact, if it is not."""
    restored = generators.restore(resumed.values["generators"], resumed.tensors)
    for note in restored.notes:
        logger.warning("%s", note)
    reasons = (*resumed.reasons, *restored.reasons)
    for reason in reasons:
        logger.warning("not exact: %s", reason)
    return reasons
