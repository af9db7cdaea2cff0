"""From a config to what a run computes with."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from speedtronic.pure.config import Config, Model
from speedtronic.pure.inner import InnerState
from speedtronic.pure.optim import adamw
from speedtronic.shell import session as shell_session
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.data.prepare import silent
from speedtronic.shell.opening import open_session
from speedtronic.shell.session import Session

CPU = torch.device("cpu")


def stepped(folder: Path, **optimizer: Any) -> tuple[Session, InnerState]:
    """A session, and its state after a step without donation."""
    config = config_from_dict(
        {
            "run": {"name": "r", "output_dir": str(folder)},
            "model": {"max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 8},
            "optimizer": {"name": "muon", "lr": 0.1, **optimizer},
            "scheduler": {"warmup_steps": 0},
            "compile": {"donate": False},
        }
    )
    with ExitStack() as stack:
        data, session = open_session(stack, config, CPU, None, silent)
        batches = data.train_batch(0).micro_batches
        state, _ = session.runner(print)(session.initial, batches)
    return session, state


def test_a_config_chooses_the_arithmetic_of_muon(tmp_path: Path) -> None:
    """Updates of matrices differ by what bfloat16 rounds, and of nothing else."""
    session, exact = stepped(tmp_path, muon_iteration_dtype="fp32")
    _, fast = stepped(tmp_path, muon_iteration_dtype="bf16")

    def moved(state: InnerState, name: str) -> Tensor:
        return state.params[name] - session.initial.params[name]

    for name in exact.params:
        apart = (moved(exact, name) - moved(fast, name)).norm()
        if "proj" in name:
            assert 0 < apart < 0.1 * moved(exact, name).norm(), name
        else:
            assert 0 == apart, name


@pytest.mark.parametrize(
    ("device", "recomputes", "told"),
    [
        ("cpu", False, ["ooo_backprop: cpu has no streams, the backward keeps its"]),
        ("cuda", False, []),
        ("cuda", True, ["ooo_backprop: blocks that are recomputed keep their order"]),
    ],
)
def test_an_order_that_is_kept_is_told(
    device: str, recomputes: bool, told: list[str]
) -> None:
    """A field that is accepted and idle is never silent."""
    model = Model(gradient_checkpointing=recomputes)
    config = Config(ooo_backprop=True, model=model)
    found = shell_session._without_effect(config, adamw(0.1), torch.device(device))

    assert told == [line[: len(start)] for line, start in zip(found, told, strict=True)]
