"""The steps of one process."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from speedtronic.pure.delta import Weights
from speedtronic.pure.optim.average import AveragedState
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.data.prepare import silent
from speedtronic.shell.opening import open_session
from speedtronic.shell.stepper import Counters, Stepper


@pytest.fixture
def stepper(tmp_path: Path) -> Iterator[Stepper]:
    """One whose optimizer also keeps an average, after three steps."""
    config = config_from_dict(
        {
            "run": {"name": "r", "output_dir": str(tmp_path)},
            "model": {"max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 8},
            "data": {"num_tokens": 500},
            "optimizer": {"average": "ema", "average_decay": 0.5, "lr": 0.1},
        }
    )
    with ExitStack() as stack:
        device = torch.device("cpu")
        data, session = open_session(stack, config, device, None, silent)
        made = Stepper(session, data, session.initial, Counters())
        stack.callback(made.close)
        for _ in range(3):
            made.step(made.read(), None)
        yield made


def test_a_reset_forgets_moments_and_keeps_the_average(stepper: Stepper) -> None:
    """An average is of weights, which are not reset."""
    before = stepper.state.optimizer
    assert isinstance(before, AveragedState) and 3 == before.optimizer[0].count
    kept = {name: x.clone() for name, x in before.average.items()}
    stepper.install(None, None, reset_optimizer=True)
    after = stepper.state.optimizer

    assert 0 == after.optimizer[0].count
    assert all(torch.equal(x, after.average[name]) for name, x in kept.items())
    stepper.step(stepper.read(), None)
    moved = stepper.state.optimizer.average
    assert any(not torch.equal(x, moved[name]) for name, x in kept.items())


def test_other_weights_are_copied_in(stepper: Stepper) -> None:
    """A donated step writes over its own and not over what it was given."""
    given = {name: torch.zeros_like(x) for name, x in stepper.state.params.items()}
    optimizer = stepper.state.optimizer
    weights = Weights(params=given, buffers={})
    stepper.install(weights, None, reset_optimizer=False)
    assert stepper.state.optimizer is optimizer
    stepper.step(stepper.read(), None)

    assert all(bool((x == 0).all()) for x in given.values())


def test_reading_goes_on_elsewhere(stepper: Stepper) -> None:
    """The place in the data is the position and a shift."""
    stepper.install(None, 10, reset_optimizer=False)
    assert (3, 10) == (stepper.counters.position, stepper.counters.cursor)
    stepper.step(stepper.read(), None)

    assert (4, 11) == (stepper.counters.position, stepper.counters.cursor)
