"""What the gradient refuses; its numbers are tested with modules and steps."""

import pytest
import torch

from speedtronic.pure.contract import ContractError
from speedtronic.pure.gradient import gradient
from speedtronic.pure.types import Batch, Buffers, Key, LossOutput, Params


def constant(params: Params, buffers: Buffers, batch: Batch, key: Key) -> LossOutput:
    return LossOutput(
        loss_sum=torch.ones(()), count=torch.ones(()), metrics={}, buffers={}
    )


def test_another_engine_is_refused() -> None:
    """It would be one of the two without a word."""
    with pytest.raises(ValueError, match="one of autograd, func, found 'jax'"):
        gradient(constant, engine="jax")  # type: ignore[arg-type]


def test_a_loss_without_parameters_is_refused() -> None:
    """Torch's own message names nothing."""
    with pytest.raises(ContractError, match="depends on no parameter"):
        gradient(constant)({"w": torch.ones(1)}, {}, {}, None, torch.zeros(2), None)
