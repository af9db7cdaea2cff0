"""What a model does on its first batch."""

import random
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from speedtronic.errors import ModelError
from speedtronic.pure.inner import InnerState, init_inner
from speedtronic.pure.module import split
from speedtronic.pure.optim import sgd
from speedtronic.pure.random import key_from_seed
from speedtronic.shell.device import ARITHMETIC
from speedtronic.shell.first_batch import FirstBatch, try_first_batch
from speedtronic.shell.session import autocast


class Line(nn.Module):
    """A classifier, to be spoilt."""

    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.line = nn.Linear(2, 3)
        self.register_buffer("kept", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x)  # type: ignore[no-any-return]


class Detached(Line):
    def forward(self, x: Tensor) -> Tensor:
        return self.line(x).detach()  # type: ignore[no-any-return]


class ClampsItsWeights(Line):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.line.weight.clamp_(-0.1, 0.1)
        return self.line(x)  # type: ignore[no-any-return]


class Grows(Line):
    def forward(self, x: Tensor) -> Tensor:
        self.kept = torch.cat([self.kept, self.kept])
        return self.line(x)  # type: ignore[no-any-return]


class Averages(Line):
    def forward(self, x: Tensor) -> Tensor:
        self.kept = self.kept + 0.5
        return self.line(x)  # type: ignore[no-any-return]


class Leaves(Line):
    def forward(self, x: Tensor) -> Tensor:
        raise SystemExit(0)


class Sparse(Line):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 3, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x) + self.table(x.long()[:, 0])  # type: ignore[no-any-return]


class Complex(Line):
    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Parameter(torch.ones(3, dtype=torch.complex64))


class Hooked(Line):
    def __init__(self) -> None:
        super().__init__()
        self.line.weight.register_hook(lambda slope: slope * 0)


class Counts(Line):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.line(x) * self.calls  # type: ignore[no-any-return]


class OwnGenerator(Line):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.rand(3, generator=self.generator)
        return self.line(x) + noise  # type: ignore[no-any-return]


class Draws(Line):
    """From every global generator, and keeps what does not matter."""

    def forward(self, x: Tensor) -> Tensor:
        self.last = x
        noise = random.random() + np.random.rand() + torch.rand(())
        return self.line(x.mul_(2)) * noise  # type: ignore[no-any-return]


class Penalty(Line):
    """A loss that takes a gradient itself."""

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        loss = F.cross_entropy(self.line(x), labels)
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        return loss + slope.square().sum()


def attempt(module: nn.Module) -> tuple[FirstBatch, InnerState, Any]:
    params, frozen, buffers = split(module)
    state = init_inner(
        sgd(0.1), params, key_from_seed(0), frozen=frozen, buffers=buffers
    )
    batch = (torch.eye(2), torch.tensor([0, 1]))
    context = autocast(ARITHMETIC["fp32"], torch.device("cpu"))
    return try_first_batch(module, state, batch, context), state, batch


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Detached, "the loss depends on no parameter"),
        (ClampsItsWeights, "forward writes to the parameter 'line.weight'"),
        (Grows, r"buffer 'kept' as torch.int64\[2\], expected torch.int64\[1\]"),
        (Averages, r"buffer 'kept' as torch.float32\[1\], expected torch.int64\[1\]"),
        (Leaves, r"fails on its first batch: SystemExit: 0 \(.*line \d+\)"),
        (Sparse, "the gradient of 'table.weight' is sparse"),
        (Complex, "parameter 'turn' is torch.complex64, expected a real one"),
        (Hooked, "'line.weight' has a gradient hook, which would not be called"),
    ],
)
def test_what_cannot_be_a_pure_step_is_refused(
    kind: type[nn.Module], told: str
) -> None:
    """In one line each, naming the part."""
    with pytest.raises(ModelError, match=told):
        attempt(kind())


@pytest.mark.parametrize("kind", [Counts, OwnGenerator])
def test_a_model_with_a_memory_of_its_own_is_not_exact(kind: type[nn.Module]) -> None:
    """A checkpoint does not hold what is neither parameter nor buffer."""
    (reason,) = attempt(kind())[0].reasons

    assert "neither parameter nor buffer" in reason


@pytest.mark.parametrize("kind", [Line, Draws, Penalty])
def test_others_are_left_alone(kind: type[nn.Module]) -> None:
    """Also those that draw from global generators: a run seeds and saves these."""
    assert () == attempt(kind())[0].reasons


def test_nothing_is_changed_by_the_attempt() -> None:
    """State, batch and generators are as they were."""
    module = Draws()
    before = random.getstate(), torch.get_rng_state(), np.random.get_state()[1].copy()
    _, state, (x, _) = attempt(module)
    after = random.getstate(), torch.get_rng_state(), np.random.get_state()[1]

    assert before[0] == after[0]
    assert torch.equal(before[1], after[1]) and np.array_equal(before[2], after[2])
    assert torch.equal(torch.eye(2), x)
    for name, value in split(module)[0].items():
        assert torch.equal(value, state.params[name])
