"""A run folder with checkpoints, made without training."""

from pathlib import Path

from torch import Tensor, nn

from speedtronic.pure.config import Config
from speedtronic.pure.module import persistent_buffers, split
from speedtronic.pure.tree import state
from speedtronic.shell.checkpoint import Snapshot, save
from speedtronic.shell.rundir import RunDirectory


@state
class Part:
    """What a checkpoint's model file comes from."""

    params: dict[str, Tensor]
    frozen: dict[str, Tensor]
    buffers: dict[str, Tensor]


def save_run(path: Path, config: Config, module: nn.Module, steps: int = 1) -> Path:
    """A run whose checkpoints 1 to ``steps`` all hold the module; its folder."""
    params, frozen, buffers = split(module)
    with RunDirectory.open(path, "new", config) as run:
        run.checkpoints.mkdir()
        for step in range(1, steps + 1):
            save(
                run.checkpoints,
                Snapshot(
                    run_id=run.run_id,
                    step=step,
                    state=Part(params=params, frozen=frozen, buffers=buffers),
                    transient=frozenset(buffers) - persistent_buffers(module),
                ),
            )
    return path
