"""The averaged weights of a run in place of the raw ones, in memory and on disk.

`speedtronic.pure.optim.average` keeps them in the optimizer's state. Here they come
out, for whoever evaluates or exports: nothing of the run is changed.
"""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from speedtronic.errors import RunError
from speedtronic.pure.inner import InnerState
from speedtronic.pure.optim.average import AveragedState
from speedtronic.pure.tree import evolve, unquoted
from speedtronic.shell import blobs, checkpoint_manifest
from speedtronic.shell.checkpoint import load_model

_IN_CHECKPOINT = re.compile(r"optimizer\.average\[('.*'|\".*\")\]")


def averaged_state(state: InnerState) -> InnerState | None:
    """The state with the average for its parameters; None if it has no average.

    The tensors are those of ``state``: a donated step writes over both.

    >>> import torch
    >>> from speedtronic.pure.inner import init_inner
    >>> from speedtronic.pure.optim import averaged, exponential_average, sgd
    >>> optimizer = averaged(sgd(0.1), exponential_average())
    >>> key = torch.zeros(2, dtype=torch.int64)
    >>> averaged_state(init_inner(optimizer, {"w": torch.ones(1)}, key)).params
    {'w': tensor([1.])}
    """
    if not isinstance(state.optimizer, AveragedState):
        return None
    return evolve(state, params=state.optimizer.average)


def load_averaged_model(path: Path) -> tuple[dict[str, Tensor], Any]:
    """What `load_model` reads from a checkpoint, with the average for parameters.

    Raises:
        RunError: the checkpoint has no average.
        CheckpointError: as `load_model`.
    """
    tensors, hub_config = load_model(path)
    manifest = checkpoint_manifest.read(path)
    average: dict[str, Tensor] = {}
    for file in manifest.files:
        if file.startswith("optimizer") and file.endswith(".safetensors"):
            found = blobs.read(path / file, manifest.files[file])
            average |= {
                key: tensor
                for name, tensor in found.items()
                if (told := _IN_CHECKPOINT.fullmatch(name))
                and (key := unquoted(told[1])) is not None
            }
    if not average:
        raise RunError(
            f"{path} holds no averaged weights; a run keeps them with"
            " optimizer.average: ema or tail"
        )
    return tensors | average, hub_config
