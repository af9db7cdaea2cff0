"""Laws of the inner step: any split, any engine, donated or not, looped or batched."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from speedtronic.pure.gradient import gradient
from speedtronic.pure.inner import InnerState, StepRule, init_inner, inner_step
from speedtronic.pure.module import ModuleLoss, split
from speedtronic.pure.optim import Optimizer, adamw, sgd
from speedtronic.pure.random import key_from_seed
from speedtronic.pure.scaling import init_scale
from speedtronic.pure.tree import evolve, leaves, tree_map
from speedtronic.shell.compile import StepRunner

VOCABULARY, WIDTH = 7, 4


class Words(nn.Module):
    """An embedding that is also the head, dropout, batch statistics."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.drop, self.norm = nn.Dropout(rate), nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        hidden = self.drop(self.embed(input_ids))
        return self.head(self.norm(hidden.transpose(1, 2)).transpose(1, 2))  # type: ignore[no-any-return]


@st.composite
def windows(draw: st.DrawFn) -> list[dict[str, Tensor]]:
    """The rows of one step, with any number of targets in each."""
    count, length = draw(st.integers(2, 5)), draw(st.integers(2, 6))
    seed = draw(st.integers(0, 2**31))
    ids = torch.randint(
        VOCABULARY, (count, length + 1), generator=torch.Generator().manual_seed(seed)
    )
    labels = ids[:, 1:].clone()
    for row in range(count):
        labels[row, draw(st.integers(0, length)) :] = -100
    return [
        {"input_ids": ids[i : i + 1, :-1].clone(), "labels": labels[i : i + 1]}
        for i in range(count)
    ]


optimizers = st.sampled_from([adamw(1e-2), adamw(1e-2, weight_decay=0.5), sgd(0.1)])


def begin(module: nn.Module, optimizer: Optimizer, scale: float | None) -> InnerState:
    params, frozen, buffers = split(module)
    return init_inner(
        optimizer,
        params,
        key_from_seed(1),
        frozen=frozen,
        buffers=buffers,
        scale=() if scale is None else init_scale(scale),
    )


@given(windows(), st.data())
def test_any_split_of_the_same_rows_gives_the_same_step(
    window: list[dict[str, Tensor]], data: st.DataObject
) -> None:
    """Sums of loss and counts are divided once."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
    )
    size = data.draw(st.integers(1, len(window)))
    joined = [
        tree_map(lambda *x: torch.cat(x), *window[at : at + size])
        for at in range(0, len(window), size)
    ]
    loss = lambda p, b, batch, key: ModuleLoss(module, train=True)(
        p, b, (batch["input_ids"], batch["labels"]), key
    )
    optimizer = sgd(0.1)
    a, told_a = inner_step(
        gradient(loss), optimizer, begin(module, optimizer, None), window
    )
    b, told_b = inner_step(
        gradient(loss), optimizer, begin(module, optimizer, None), joined
    )

    torch.testing.assert_close(told_a.loss, told_b.loss, equal_nan=True)
    for x, y in zip(leaves(a.params), leaves(b.params), strict=True):
        torch.testing.assert_close(x, y)


@given(windows(), optimizers, st.sampled_from([None, 1.0, 2.0**127]), st.booleans())
def test_donated_equals_pure(
    window: list[dict[str, Tensor]],
    optimizer: Optimizer,
    scale: float | None,
    clip: bool,
) -> None:
    """Writing over the old state gives the same bits, skipped steps included."""
    torch.manual_seed(0)
    module = Words(0.3)
    rule = StepRule(max_norm=0.1 if clip else None)
    slope = gradient(ModuleLoss(module, train=True))
    run = {
        donate: StepRunner(slope, optimizer, rule, donate=donate)
        for donate in (False, True)
    }
    states = {donate: begin(module, optimizer, scale) for donate in run}
    for _ in range(3):
        for donate in run:
            states[donate], _ = run[donate](states[donate], window)

    for x, y in zip(leaves(states[False]), leaves(states[True]), strict=True):
        assert torch.equal(x, y)


@given(windows(), st.integers(1, 3))
def test_the_fused_kernel_follows_the_definition(
    window: list[dict[str, Tensor]], steps: int
) -> None:
    """One kernel or leaf by leaf: the same to rounding."""
    torch.manual_seed(0)
    module, optimizer = Words(0.0), adamw(1e-2)
    slope = gradient(ModuleLoss(module, train=True))
    states = [begin(module, optimizer, None) for _ in range(2)]
    runner = StepRunner(slope, optimizer, StepRule())
    for _ in range(steps):
        states[0], _ = inner_step(slope, optimizer, states[0], window)
        states[1], _ = runner(states[1], window)

    for x, y in zip(leaves(states[0].params), leaves(states[1].params), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


@settings(max_examples=10)
@given(windows())
def test_batched_replicas_equal_a_loop(window: list[dict[str, Tensor]]) -> None:
    """`torch.vmap` over states with different keys, dropout included."""
    torch.manual_seed(0)
    module, optimizer = Words(0.5), adamw(1e-2)
    slope = gradient(ModuleLoss(module, train=True), engine="func")
    states = [begin(module, optimizer, None) for _ in range(3)]
    keyed = [
        evolve(state, key=key_from_seed(seed)) for seed, state in enumerate(states)
    ]
    stacked = tree_map(lambda *x: torch.stack(x), *keyed)

    batched, _ = torch.vmap(lambda s: inner_step(slope, optimizer, s, window))(stacked)

    for index, state in enumerate(keyed):
        alone, _ = inner_step(slope, optimizer, state, window)
        for name, value in alone.params.items():
            torch.testing.assert_close(batched.params[name][index], value)
