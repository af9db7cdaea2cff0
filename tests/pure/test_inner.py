"""The inner step."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from speedtronic.pure.contract import ContractError
from speedtronic.pure.gradient import Engine, gradient
from speedtronic.pure.inner import (
    InnerState,
    StepRule,
    accumulate,
    init_inner,
    inner_step,
    position,
)
from speedtronic.pure.module import ModuleLoss, split
from speedtronic.pure.optim import adamw, sgd
from speedtronic.pure.random import key_from_seed
from speedtronic.pure.scaling import init_scale
from speedtronic.pure.tree import leaves, named_leaves
from speedtronic.testing.purity import check_pure


class Words(nn.Module):
    """A tiny language model with dropout."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(13, 8)
        self.norm, self.drop = nn.LayerNorm(8), nn.Dropout(rate)
        self.head = nn.Linear(8, 13, bias=False)

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.drop(self.norm(self.embed(input_ids))))
        return {"logits": logits, "spread": logits.std()}


def rows(count: int, real: tuple[int, ...] = ()) -> dict[str, Tensor]:
    """Rows of 12 tokens, of which the first ``real[i]`` targets count in row i."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(13, (count, 13), generator=generator)
    labels = ids[:, 1:].clone()
    for row, keep in enumerate(real):
        labels[row, keep:] = -100
    return {"input_ids": ids[:, :-1].contiguous(), "labels": labels}


def cut(batch: dict[str, Tensor], size: int) -> list[dict[str, Tensor]]:
    count = len(batch["labels"])
    return [
        {name: value[at : at + size] for name, value in batch.items()}
        for at in range(0, count, size)
    ]


def start(module: nn.Module, optimizer=adamw(1e-2), **kwargs) -> InnerState:  # type: ignore[no-untyped-def]  # noqa: B008
    params, frozen, buffers = split(module)
    return init_inner(
        optimizer, params, key_from_seed(5), frozen=frozen, buffers=buffers, **kwargs
    )


def train(
    module: nn.Module,
    micro_batches: list[dict[str, Tensor]],
    steps: int = 5,
    engine: Engine = "autograd",
    rule: StepRule = StepRule(),  # noqa: B008
) -> InnerState:
    slope = gradient(ModuleLoss(module, train=True), engine)
    state = start(module)
    for _ in range(steps):
        state, _ = inner_step(slope, adamw(1e-2), state, micro_batches, rule=rule)
    return state


def same(a: InnerState, b: InnerState, **kwargs: float) -> None:
    for path, value in named_leaves(a.params).items():
        other = named_leaves(b.params)[path]
        torch.testing.assert_close(
            value, other, msg=lambda m, p=path: f"{p}: {m}", **kwargs
        )


def test_uneven_rows_count_by_their_targets() -> None:
    """Two rows of 3 and 12 targets train alike in one micro-batch or in two."""
    batch = rows(2, real=(3, 12))

    same(train(Words(), [batch]), train(Words(), cut(batch, 1)), rtol=1e-5, atol=1e-6)


def test_the_step_is_that_of_the_usual_loop() -> None:
    """Mean loss, clip_grad_norm_ and torch.optim.AdamW, five times."""
    module, batch = Words(), rows(4)
    state = train(module, cut(batch, 2), rule=StepRule(max_norm=0.5))
    decayed = [p for p in module.parameters() if p.ndim > 1]
    others = [p for p in module.parameters() if p.ndim <= 1]
    groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    for _ in range(5):
        logits = module(batch["input_ids"])["logits"]
        loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        optimizer.step()

    for name, value in module.named_parameters():
        torch.testing.assert_close(
            state.params[name], value.detach(), rtol=1e-4, atol=1e-5
        )


def test_both_engines_take_the_same_step() -> None:
    """torch.autograd and torch.func, dropout included."""
    batch = [rows(3)]

    same(train(Words(0.3), batch), train(Words(0.3), batch, engine="func"))


@pytest.mark.parametrize("padded_first", [True, False])
def test_a_padded_micro_batch_changes_nothing(padded_first: bool) -> None:
    """The window with it equals the window without it."""
    batch = rows(2)
    padded = {**batch, "labels": torch.full_like(batch["labels"], -100)}
    window = [padded, batch] if padded_first else [batch, padded]

    same(train(Words(), [batch]), train(Words(), window), rtol=0, atol=0)


class OwnMean(nn.Module):
    """A loss of its own, NaN where no target counts, and so is its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.words = Words()

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.words(input_ids)["logits"].transpose(1, 2)
        each = F.cross_entropy(logits, labels.clamp(min=0), reduction="none")
        loss = (each * (labels != -100)).sum() / (labels != -100).sum()
        return {"loss": loss, "perplexity": loss.exp()}


@pytest.mark.parametrize("padded_first", [True, False])
@pytest.mark.parametrize("engine", ["autograd", "func"])
def test_a_mean_over_no_target_adds_nothing(engine: Engine, padded_first: bool) -> None:
    """Neither to the gradient nor to the metrics of the window."""
    batch, slope = (
        rows(1, (3,)),
        gradient(ModuleLoss(OwnMean(), train=True), engine=engine),
    )
    padded = {**batch, "labels": torch.full_like(batch["labels"], -100)}
    window = [padded, batch] if padded_first else [batch, padded]
    expected = accumulate(slope, start(OwnMean()), [batch])
    found = accumulate(slope, start(OwnMean()), window)

    for path, value in named_leaves(expected).items():
        assert torch.equal(value, named_leaves(found)[path]), path


def test_a_metric_of_some_micro_batches_is_named() -> None:
    """There is no mean to log, and a step must not depend on it."""

    class Moody(Words):
        def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
            output = super().forward(input_ids)
            return output if len(input_ids) > 1 else {"logits": output["logits"]}

    slope = gradient(ModuleLoss(Moody(), train=True))
    with pytest.raises(ContractError, match="'spread' for some micro-batches only"):
        accumulate(slope, start(Moody()), [rows(1), rows(2)])


def test_a_batch_that_is_not_in_a_list_is_refused() -> None:
    """Its fields would be taken for micro-batches."""
    with pytest.raises(TypeError, match=r"found dict; use \[batch\]"):
        accumulate(gradient(ModuleLoss(Words(), train=True)), start(Words()), rows(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan])
def test_a_bound_that_turns_the_gradient_round_is_refused(bound: float) -> None:
    """A negative one would go uphill without a word."""
    slope = gradient(ModuleLoss(Words(), train=True))
    with pytest.raises(ValueError, match="max_norm: expected a number above 0"):
        inner_step(
            slope, adamw(1e-2), start(Words()), [rows(2)], rule=StepRule(max_norm=bound)
        )


def test_an_all_padded_window_is_skipped_and_counted() -> None:
    """No decay, no momentum, no NaN: everything but the counters stays."""
    module = Words()
    batch = rows(2, real=(0, 0))
    slope = gradient(ModuleLoss(module, train=True))
    state = start(module)

    after, info = inner_step(slope, adamw(1e-2), state, [batch])

    assert (0, 1, 1) == (int(after.step), int(after.skipped), int(after.skipped_in_row))
    assert math.isnan(float(info.loss)) and not bool(info.applied)
    for a, b in zip(leaves(after.params), leaves(state.params), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(leaves(after.optimizer), leaves(state.optimizer), strict=True):
        assert torch.equal(a, b)


def test_a_step_that_is_not_finite_changes_only_scale_and_counters() -> None:
    """Parameters, moments, step count and buffers keep their bits."""
    module = Words()
    state = start(module, scale=init_scale(1e38))
    slope = gradient(ModuleLoss(module, train=True))

    after, info = inner_step(slope, adamw(1e-2), state, [rows(2)])

    assert not math.isfinite(float(info.gradient_norm))
    changed = {
        path
        for path, value in named_leaves(after).items()
        if not torch.equal(value, named_leaves(state)[path])
    }
    assert {".scale.scale", ".skipped", ".skipped_in_row"} == changed


def test_a_usable_step_ends_the_row_of_skipped_ones() -> None:
    """The position goes on by one either way."""
    module = Words()
    slope = gradient(ModuleLoss(module, train=True))
    state = start(module)
    for real in ((0, 0), (0, 0), (12, 12)):
        state, _ = inner_step(slope, adamw(1e-2), state, [rows(2, real)])

    assert (1, 2, 0) == (int(state.step), int(state.skipped), int(state.skipped_in_row))
    assert 3 == int(position(state))


def test_clipping_sees_unscaled_gradients() -> None:
    """The logged norm and the clipped step do not depend on the loss scale."""
    module, batch = Words(), rows(2)
    slope = gradient(ModuleLoss(module, train=True))
    rule = StepRule(max_norm=0.1)
    plain, told = inner_step(slope, adamw(1e-2), start(module), [batch], rule=rule)
    scaled = start(module, scale=init_scale(1024.0))

    after, info = inner_step(slope, adamw(1e-2), scaled, [batch], rule=rule)

    torch.testing.assert_close(told.gradient_norm, info.gradient_norm)
    same(plain, after)


def test_metrics_are_means_by_targets() -> None:
    """A micro-batch of three targets weighs a quarter of one of twelve."""
    module = Words()
    slope = gradient(ModuleLoss(module, train=True))
    parts = cut(rows(2, real=(3, 12)), 1)
    each = [inner_step(slope, sgd(0.0), start(module, sgd(0.0)), [p])[1] for p in parts]

    _, info = inner_step(slope, sgd(0.0), start(module, sgd(0.0)), parts)

    expected = (3 * each[0].metrics["spread"] + 12 * each[1].metrics["spread"]) / 15
    torch.testing.assert_close(info.metrics["spread"], expected)


def test_dropout_differs_between_steps_and_micro_batches() -> None:
    """The key is folded with the position and the number of the micro-batch."""
    module = Words(0.5)
    slope = gradient(ModuleLoss(module, train=True))
    state = start(module, sgd(0.0))
    twice = accumulate(slope, state, [rows(1), rows(1)])
    once = accumulate(slope, state, [rows(1)])
    later, _ = inner_step(slope, sgd(0.0), state, [rows(1)])

    assert float(twice.loss_sum) != 2 * float(once.loss_sum)
    assert float(accumulate(slope, later, [rows(1)]).loss_sum) != float(once.loss_sum)


def test_the_step_is_pure() -> None:
    """No argument is written to, nothing is drawn."""
    module = Words(0.5)
    slope = gradient(ModuleLoss(module, train=True))
    step = lambda state, batch: inner_step(slope, adamw(1e-2), state, [batch])

    check_pure(step, start(module), rows(2))


def test_a_step_without_batches_is_refused() -> None:
    """There is nothing to divide by."""
    slope = gradient(ModuleLoss(Words(), train=True))
    with pytest.raises(ValueError, match="at least one micro-batch"):
        accumulate(slope, start(Words()), [])
