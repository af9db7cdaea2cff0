"""Cautious masking."""

import torch

from speedtronic.pure.optim.base import Clock, stateless
from speedtronic.pure.optim.cautious import cautious
from speedtronic.pure.optim.scale import descend

CLOCK = Clock(step=torch.tensor(0))
UPDATES = torch.tensor([[1.0, -1.0, 1.0, -1.0, 1.0, 0.0]])
GRADS = {"w": torch.tensor([[2.0, 2.0, -2.0, -2.0, 0.0, 2.0]])}
DIRECTION = stateless(lambda grads, params, clock: {"w": UPDATES})
PARAMS = {"w": torch.full((1, 6), 10.0)}


def test_entries_against_the_gradient_are_zero() -> None:
    """Only entries whose sign is that of the gradient stay, unscaled."""
    updates, _ = cautious(DIRECTION).update(GRADS, (), PARAMS, CLOCK)

    assert [[1.0, 0.0, 0.0, -1.0, 0.0, 0.0]] == updates["w"].tolist()


def test_decay_is_not_masked() -> None:
    """Masked entries still shrink: the mask is inside, the decay outside."""
    step = descend(cautious(DIRECTION), learning_rate=0.1, weight_decay=0.5)
    updates, _ = step.update(GRADS, step.init(PARAMS), PARAMS, CLOCK)

    expected = torch.tensor([[-0.6, -0.5, -0.5, -0.4, -0.5, -0.5]])
    torch.testing.assert_close(expected, updates["w"])


def test_tiny_values_still_agree() -> None:
    """Where the product of two values is 0 in float32, their signs still agree."""
    tiny = {"w": torch.tensor([1e-30])}
    direction = stateless(lambda grads, params, clock: tiny)

    updates, _ = cautious(direction).update(tiny, (), tiny, CLOCK)
    assert torch.equal(tiny["w"], updates["w"])
