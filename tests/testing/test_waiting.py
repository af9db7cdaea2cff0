"""The counter of operations that wait, and what it counts in a step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
from torch import Tensor

from speedtronic.pure.config import (
    Checkpoint,
    Config,
    Data,
    Evaluation,
    Logging,
    Model,
    Optimizer,
    Precision,
    Run,
)
from speedtronic.shell import session as shell_session
from speedtronic.shell.device import machine
from speedtronic.shell.loop import Loop
from speedtronic.shell.session import Session, build_session
from speedtronic.shell.train import train
from speedtronic.testing.waiting import HostWaits

ONES, MASK = torch.ones(2), torch.tensor([True, False])


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.any()),
        lambda x: x.nonzero(),
        lambda x: x[MASK],
        lambda x: x.index_put((MASK,), torch.tensor(2.0)),
        lambda x: x.masked_select(MASK),
        lambda x: x.equal(x),
        lambda x: x.unique(),
        lambda x: torch.repeat_interleave(x, torch.tensor([1, 2])),
    ],
    ids="item bool nonzero index index_put masked_select equal unique repeat".split(),
)
def test_what_must_be_known_is_counted(wait: Callable[[Tensor], object]) -> None:
    """A number that the host reads, or one that sizes a result."""
    with HostWaits() as waits:
        wait(ONES)

    assert 1 == waits.seen.total()


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x[torch.tensor([0])],
        lambda x: x[0] + x[1:],
        lambda x: x.index_put((torch.tensor([0]),), torch.tensor(2.0)),
        lambda x: x.masked_fill(MASK, 2.0),
        lambda x: torch.where(MASK, x, -x),
    ],
    ids="index select index_put masked_fill where".split(),
)
def test_what_stays_on_the_device_is_not(compute: Callable[[Tensor], Tensor]) -> None:
    """Sizes that follow from sizes cost no waiting."""
    with HostWaits() as waits:
        compute(ONES)

    assert {} == waits.seen


def config(precision: str, **optimizer: Any) -> Config:
    return Config(
        run=Run(device="cpu"),
        model=Model(
            vocab_size=32, max_seq_len=8, n_layer=2, n_head=2, d_model=16, dropout=0.1
        ),
        data=Data(micro_batch_size=2, target_batch_size=4),
        optimizer=Optimizer(grad_clip=1.0, **optimizer),
        precision=Precision(mode=precision),
    )


def batch(seed: int) -> dict[str, Tensor]:
    ids = torch.randint(32, (2, 9), generator=torch.Generator().manual_seed(seed))
    labels = ids[:, 1:].clone()
    labels[0, :3] = -100
    return {"input_ids": ids[:, :-1].clone(), "labels": labels}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    "optimizer",
    [
        {"name": "adamw"},
        {"name": "adamw", "fused": False},
        {"name": "adamw", "cautious": True},
        {"name": "muon"},
        {"name": "muon", "muon_iteration_dtype": "bf16"},
        {
            "name": "muon",
            "muon_plus": True,
            "muon_coefficients": "polar_express",
            "muon_adjust": "match_rms_adamw",
            "weight_decay_follows_schedule": False,
            "average": "tail",
            "lookahead_every": 3,
            "lookahead_momentum": 0.6,
        },
        {"name": "muon", "normuon": True},
        {
            "name": "muon",
            "normuon": True,
            "cautious": True,
            "cautious_decay": True,
            "average": "ema",
            "lookahead_every": 2,
        },
    ],
    ids=[
        "adamw",
        "adamw by its formula",
        "cautious adamw",
        "muon",
        "muon in bfloat16",
        "muon+ and snoo",
        "normuon",
        "everything",
    ],
)
def test_a_step_never_waits_for_the_device(
    precision: str, optimizer: dict[str, Any]
) -> None:
    """Accumulation, masks of labels, dropout, loss scale, clipping and optimizer."""
    told = config(precision, **optimizer)
    session = build_session(told, batch(0))
    run, state = session.runner(pytest.fail), session.initial
    share = torch.tensor(0.5)
    with machine(told.run, session.device), HostWaits() as waits:
        for step in range(2):
            window = [batch(2 * step), batch(2 * step + 1)]
            state, info = run(state, window, share if step else None)

    assert {} == waits.seen
    assert bool(info.applied) and 2 == state.step
    assert bool(torch.isfinite(info.loss))


@pytest.mark.parametrize("ooo", [False, True], ids=["in order", "out of order"])
def test_steps_that_nobody_looks_at_never_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ooo: bool
) -> None:
    """In the whole loop of a run: three times the steps wait no more often.

    What is read ahead is read by another thread, which is not counted.
    """
    if ooo:
        monkeypatch.setattr(Session, "streams", 2)
        monkeypatch.setattr(shell_session, "CudaStreams", lambda *_: AtOnce())
    seen: list[Any] = []
    run = Loop.run

    def counted(loop: Loop) -> None:
        with HostWaits() as waits:
            run(loop)
        seen.append(waits.seen)

    monkeypatch.setattr(Loop, "run", counted)
    for steps in (2, 6):
        train(evolved(config("fp32"), tmp_path / str(steps), steps))

    assert seen[0] == seen[1]
    assert seen[0]  # the first step, the last, and the end of the run


class AtOnce:
    """Computes in place of side streams."""

    def submit(self, product: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        return product(*inputs)

    def join(self, results: list[Tensor]) -> None: ...


def evolved(told: Config, folder: Path, steps: int) -> Config:
    """A run of so many steps that logs the first and the last."""
    return attrs.evolve(
        told,
        run=attrs.evolve(told.run, max_steps=steps, output_dir=str(folder)),
        data=attrs.evolve(told.data, num_tokens=500),
        logging=Logging(every_steps=1000),
        checkpoint=Checkpoint(enabled=False),
        evaluation=Evaluation(),
        precision=attrs.evolve(told.precision, max_skipped_steps=1000),
    )
