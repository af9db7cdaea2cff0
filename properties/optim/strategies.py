"""Parameters, gradients and optimizers to try laws on."""

import torch
from hypothesis import strategies as st
from torch import Tensor

from speedtronic.pure.optim import (
    Optimizer,
    adamw,
    averaged,
    cautious,
    chain,
    clip_by_global_norm,
    descend,
    exponential_average,
    lookahead,
    muon,
    partition,
    scale_by_adam,
    scale_by_muon,
    scale_by_row_moments,
    sgd,
    tail_average,
)
from speedtronic.pure.outer import OuterRule
from speedtronic.pure.schedule import constant, cosine, product, warmup

Params = dict[str, Tensor]

RATE = product(0.1, warmup(3), cosine(12, start=3, final=0.1))
SNOO = OuterRule(learning_rate=0.7, momentum=0.6)
SHAPES: dict[str, tuple[int, ...]] = {
    "up.weight": (4, 6),
    "gate.weight": (4, 6),
    "down.weight": (6, 4),
    "norm.weight": (4,),
    "scalar": (),
}
LABELS = {name: "muon" if len(SHAPES[name]) == 2 else "adamw" for name in SHAPES}

OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": sgd(RATE, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adamw": adamw(RATE, weight_decay=0.1),
    "adamw, betas that move": adamw(RATE, betas=(constant(0.9), constant(0.99))),
    "adamw, decay apart": adamw(RATE, weight_decay_follows_schedule=False),
    "adamw, clipped": chain(clip_by_global_norm(1.0), adamw(RATE)),
    "adamw, cautious": descend(cautious(scale_by_adam()), RATE, 0.1),
    "muon and adamw": partition({"muon": muon(RATE), "adamw": adamw(RATE)}, LABELS),
    "muon+, cautious, and adamw": partition(
        {
            "muon": descend(
                cautious(scale_by_muon(plus=True, coefficients="polar_express")),
                RATE,
                0.1,
            ),
            "adamw": adamw(RATE),
        },
        LABELS,
    ),
    "normuon, cautious decay, and adamw": partition(
        {
            "muon": descend(
                chain(scale_by_muon(), scale_by_row_moments()),
                RATE,
                0.1,
                cautious_decay=True,
            ),
            "adamw": descend(scale_by_adam(), RATE, 0.1, cautious_decay=True),
        },
        LABELS,
    ),
    "muon+ and adamw": partition(
        {"muon": muon(RATE, plus=True), "adamw": adamw(RATE)}, LABELS
    ),
    "muon by polar express, as large as adamw, and cautious adamw": partition(
        {
            "muon": muon(RATE, coefficients="polar_express", adjust="match_rms_adamw"),
            "adamw": descend(cautious(scale_by_adam()), RATE, 0.1),
        },
        LABELS,
    ),
    "normuon, cautious, and adamw": partition(
        {
            "muon": descend(
                cautious(chain(scale_by_muon(), scale_by_row_moments())), RATE, 0.1
            ),
            "adamw": adamw(RATE),
        },
        LABELS,
    ),
    "adamw, averaged": averaged(adamw(RATE), exponential_average(0.5)),
    "adamw, its tail averaged": averaged(adamw(RATE), tail_average(2)),
    "adamw, looking ahead": lookahead(adamw(RATE), 2, SNOO),
    "muon and adamw, looking ahead and averaged": averaged(
        lookahead(
            partition({"muon": muon(RATE), "adamw": adamw(RATE)}, LABELS), 2, SNOO
        ),
        exponential_average(0.5),
    ),
}

seeds = st.integers(0, 2**31)
names = st.sampled_from(sorted(OPTIMIZERS))


def normal(seed: int, shapes: dict[str, tuple[int, ...]]) -> Params:
    """Standard normal tensors of the given shapes."""
    made = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=made) for name, shape in shapes.items()}


@st.composite
def shapes(
    draw: st.DrawFn, dimensions: int | None = None
) -> dict[str, tuple[int, ...]]:
    """Up to four parameters with up to three dimensions, or just as many."""
    low, high = (0, 3) if dimensions is None else (dimensions, dimensions)
    shape = st.lists(st.integers(1, 9), min_size=low, max_size=high).map(tuple)
    found = draw(st.lists(shape, min_size=1, max_size=4))
    return {f"layer{i}.weight": shape for i, shape in enumerate(found)}
