"""What a run came to: its newest global model, judged on held-out data."""

import tempfile
from pathlib import Path

import attrs

from speedtronic.errors import RunError
from speedtronic.pure.config import Config
from speedtronic.pure.tree import evolve, tree_map
from speedtronic.shell.data import open_data
from speedtronic.shell.device import machine
from speedtronic.shell.distributed.fetched import fetch_checked
from speedtronic.shell.distributed.files import read_weights
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.evaluate import Evaluation, evaluate_held_out
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.paths import token_folder
from speedtronic.shell.session import build_session


@attrs.frozen(kw_only=True)
class Outcome:
    """The newest global model of a run."""

    round: int
    evaluation: Evaluation | None  # None where nothing is held out

    @property
    def validation_loss(self) -> float | None:
        """Nats per target."""
        return None if self.evaluation is None else self.evaluation.loss

    def line(self, lane: str) -> str:
        """One line for a person, as scripts may read it, too."""
        loss = self.validation_loss
        return (
            f"global model round={self.round} lane={lane}"
            f" validation_loss={'null' if loss is None else repr(loss)}"
        )


def evaluate_global(config: Config, lane: str) -> Outcome:
    """Fetch the newest global model of a lane and evaluate it.

    Raises:
        RunError: the lane holds no run.
        SpeedtronicError: whatever is wrong with config, data, model or lane.
    """
    opened = parse_lane(lane)
    view = Looker(opened).look()
    if view.manifest is None or view.revision is None:
        raise RunError(f"{lane} holds no run yet")
    with tempfile.TemporaryDirectory(prefix="speedtronic-") as folder:
        path = Path(folder) / "model.safetensors"
        fetch_checked(opened, view.manifest.weights, view.revision, path)
        weights = read_weights(path)
    data = open_data(config, directory=token_folder(config))
    try:
        session = build_session(config, data.train_batch(0).micro_batches[0])
        weights = tree_map(lambda x: x.to(session.device), weights)
        state = evolve(
            session.initial,
            params=weights.params,
            buffers=session.initial.buffers | weights.buffers,
        )
        with machine(config.run, session.device):
            found = evaluate_held_out(session, data, state)
    finally:
        data.close()
    return Outcome(round=view.manifest.round, evaluation=found)
