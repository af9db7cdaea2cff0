"""SGD against torch.optim."""

import inspect

import pytest
import torch

from speedtronic.pure.optim.base import Clock, apply_updates
from speedtronic.pure.optim.decay import decay_everything
from speedtronic.pure.optim.sgd import sgd

CLOCK = Clock(step=torch.tensor(0))


def test_defaults_are_those_of_torch() -> None:
    """A config can be carried over without looking anything up."""
    theirs = inspect.signature(torch.optim.SGD).parameters
    ours = inspect.signature(sgd).parameters

    assert theirs["lr"].default == ours["learning_rate"].default
    for name in ("momentum", "nesterov", "weight_decay"):
        assert theirs[name].default == ours[name].default


@pytest.mark.parametrize(
    "momentum, nesterov", [(0.0, False), (0.9, False), (0.9, True)]
)
def test_steps_are_those_of_torch(momentum: float, nesterov: bool) -> None:
    """Four steps with decay, within float32 rounding."""
    made = torch.Generator().manual_seed(0)
    start = torch.randn(4, 3, generator=made)
    grads = [torch.randn(4, 3, generator=made) for _ in range(4)]
    leaf = start.clone().requires_grad_()
    theirs = torch.optim.SGD([leaf], 0.1, momentum, 0.0, 0.2, nesterov)
    ours = sgd(0.1, momentum, nesterov, 0.2, decay_everything)
    params = {"w": start}
    state = ours.init(params)
    for grad in grads:
        leaf.grad = grad.clone()
        theirs.step()
        updates, state = ours.update({"w": grad}, state, params, CLOCK)
        params = apply_updates(params, updates)

    torch.testing.assert_close(leaf.detach(), params["w"])
