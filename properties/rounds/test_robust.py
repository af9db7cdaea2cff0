"""Robust rules against their definitions, written naively in float64, and their bounds.

Deltas have a few coordinates; their numbers differ by many orders of magnitude.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from speedtronic.pure.aggregate import Aggregator, aggregate
from speedtronic.pure.delta import Delta
from speedtronic.pure.origin import Origin
from speedtronic.pure.robust import (
    CLIP_STEPS,
    centered_clip,
    geometric_median,
    median,
    multi_krum,
    norm_clip,
    trimmed_mean,
)
from speedtronic.pure.round.rule import RoundRule
from speedtronic.pure.rules import NAMES

Rows = list[Tensor]  # f64[coordinates] each
SEEDS = st.integers(0, 2**31)
COUNTS = st.integers(3, 9)
OUTLIERS = st.sampled_from([0.0, 1e-6, 1.0, 10.0, 1e3, 1e10, 1e37])
SHAPES = {"a": (3,), "b.c": (2, 5), "scalar": ()}
ROUNDING = 1e-5  # of float32 rows and shares, relative to the longest that counts


def draw(seed: int, count: int, spread: float = 1.0) -> list[dict[str, Tensor]]:
    """Deltas around a common direction, as those of nodes are."""
    generator = torch.Generator().manual_seed(seed)
    common = {n: torch.randn(s, generator=generator) for n, s in SHAPES.items()}
    return [
        {
            name: x + spread * torch.randn(x.shape, generator=generator)
            for name, x in common.items()
        }
        for _ in range(count)
    ]


def flat(params: dict[str, Tensor]) -> Tensor:
    return torch.cat([x.reshape(-1).double() for _, x in sorted(params.items())])


def found(
    rule: Aggregator, many: Sequence[dict[str, Tensor]], stale: Sequence[int] = ()
) -> Tensor:
    stale = stale or [0] * len(many)
    deltas = {
        Origin(f"n{n:02}", "s", 1, staleness=stale[n]): Delta(params=x, buffers={})
        for n, x in enumerate(many)
    }
    told = aggregate(deltas, rule)
    assert told is not None
    return flat(told.params)


def middle(values: Sequence[float]) -> float:
    return torch.tensor(sorted(values)).double().quantile(0.5).item()


def naive_norm_clip(rows: Rows, weights: list[float]) -> Tensor:
    bound = middle([x.norm().item() for x in rows])
    short = [x * min(1.0, bound / max(x.norm().item(), 1e-300)) for x in rows]
    return sum(w * x for w, x in zip(weights, short, strict=True)) / sum(weights)  # type: ignore[return-value]


def naive_median(rows: Rows, weights: list[float]) -> Tensor:
    """Every value with its weight, in order; the first ones at and beyond a half."""
    answer = []
    for column in torch.stack(rows).T.tolist():
        pairs = sorted(zip(column, weights, strict=True))
        sums = list(itertools.accumulate(w for _, w in pairs))
        half = sums[-1] / 2
        low = next(x for (x, _), s in zip(pairs, sums, strict=True) if s >= half - 1e-9)
        high = next(x for (x, _), s in zip(pairs, sums, strict=True) if s > half + 1e-9)
        answer.append((low + high) / 2)
    return torch.tensor(answer, dtype=torch.float64)


def naive_trimmed(rows: Rows, weights: list[float]) -> Tensor:
    answer = []
    for column in torch.stack(rows).T.tolist():
        kept = sorted(zip(column, weights, strict=True))[1:-1]
        answer.append(sum(x * w for x, w in kept) / sum(w for _, w in kept))
    return torch.tensor(answer, dtype=torch.float64)


def cost(point: Tensor, rows: Rows, weights: list[float]) -> float:
    """What the geometric median makes smallest."""
    return sum(
        w * (x - point).norm().item() for w, x in zip(weights, rows, strict=True)
    )


def naive_centered(rows: Rows, weights: list[float]) -> Tensor:
    radius, point = middle([x.norm().item() for x in rows]), rows[0] * 0.0
    for _ in range(10):
        steps = [
            w * (x - point) * min(1.0, radius / max((x - point).norm().item(), 1e-300))
            for w, x in zip(weights, rows, strict=True)
        ]
        point = point + torch.stack(steps).sum(0) / sum(weights)
    return point


def naive_krum(rows: Rows, weights: list[float]) -> Tensor:
    count, faulty = len(rows), 1
    scores = []
    for i, x in enumerate(rows):
        apart = sorted(
            (x - y).square().sum().item() for j, y in enumerate(rows) if j != i
        )
        scores.append((sum(apart[: count - faulty - 2]), i))
    best = [i for _, i in sorted(scores)[: count - faulty]]
    total = sum(weights[i] for i in best)
    return torch.stack([weights[i] * rows[i] for i in best]).sum(0) / total


CASES: dict[str, tuple[Callable[..., Aggregator], Callable[..., Tensor]]] = {
    "norm_clip": (norm_clip, naive_norm_clip),
    "median": (median, naive_median),
    "trimmed_mean": (trimmed_mean, naive_trimmed),
    "centered_clip": (centered_clip, naive_centered),
    "multi_krum": (multi_krum, naive_krum),
}
ROBUST = [name for name in NAMES if name not in ("mean", "token_mean")]
by_name = pytest.mark.parametrize("name", ROBUST)


def rule_of(name: str, faulty: int = 1) -> Aggregator:
    return RoundRule(aggregate=name, faulty=faulty).aggregator  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
@given(
    seed=SEEDS,
    count=COUNTS,
    stale=st.lists(st.sampled_from([0, 3]), min_size=9, max_size=9),
    discount=st.booleans(),
    far=st.sampled_from([1.0, 10.0, 1e3]),
)
def test_rules_are_their_definitions(
    name: str, seed: int, count: int, stale: list[int], discount: bool, far: float
) -> None:
    """With and without weights, with one of the deltas further away than the others."""
    make, naive = CASES[name]
    rule = make(discount=discount)
    assume(count >= rule.least)
    many = draw(seed, count)
    many[-1] = {key: x * far for key, x in many[-1].items()}
    weights = [0.5 if s and discount else 1.0 for s in stale[:count]]
    rows = [flat(x) for x in many]
    expected = naive(rows, weights)
    scale = sorted(x.norm().item() for x in rows)[-2 if name != "trimmed_mean" else -1]
    torch.testing.assert_close(
        found(rule, many, stale[:count]), expected, rtol=1e-5, atol=ROUNDING * scale
    )


@given(seed=SEEDS, count=COUNTS, far=st.sampled_from([1.0, 10.0, 1e3, 1e6]))
def test_no_point_nearby_is_nearer_to_all(seed: int, count: int, far: float) -> None:
    """The geometric median: a step in any direction adds to the sum of distances."""
    many = draw(seed, count)
    many[-1] = {key: x * far for key, x in many[-1].items()}
    rows, weights = [flat(x) for x in many], [1.0] * count
    point = found(geometric_median(), many)
    usual = middle([x.norm().item() for x in rows])
    generator = torch.Generator().manual_seed(seed)
    for _ in range(5):
        step = torch.randn(point.shape, generator=generator, dtype=torch.float64)
        moved = point + step / step.norm() * 0.1 * usual
        assert cost(point, rows, weights) <= cost(moved, rows, weights)


@by_name
@given(seed=SEEDS, count=COUNTS, order=st.randoms(use_true_random=False))
def test_who_is_who_does_not_matter(
    name: str, seed: int, count: int, order: object
) -> None:
    """The same deltas under each other's names: the same, but for rounding."""
    rule = rule_of(name)
    assume(count >= rule.least)
    many = draw(seed, count)
    mixed = list(many)
    order.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = found(rule, many), found(rule, mixed)
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    if name in ("median", "trimmed_mean"):  # of what is sorted, bit for bit
        assert torch.equal(one, other)


@by_name
@given(seed=SEEDS, count=COUNTS, scale=st.sampled_from([1e-12, 1.0, 1e12]))
def test_equal_deltas_are_their_own_middle(
    name: str, seed: int, count: int, scale: float
) -> None:
    """Whatever all agree on is the answer."""
    rule = rule_of(name)
    assume(count >= rule.least)
    (one,) = draw(seed, 1)
    one = {key: x * scale for key, x in one.items()}
    expected = flat(one)
    torch.testing.assert_close(
        found(rule, [one] * count), expected, rtol=1e-5, atol=1e-6 * scale
    )


@by_name
@given(seed=SEEDS, count=COUNTS, scale=st.sampled_from([2.0**-60, 0.5, 2.0**40]))
def test_the_unit_of_length_does_not_matter(
    name: str, seed: int, count: int, scale: float
) -> None:
    """All deltas a power of two longer: the answer, too."""
    rule = rule_of(name)
    assume(count >= rule.least)
    many = draw(seed, count)
    longer = [{key: x * scale for key, x in one.items()} for one in many]
    torch.testing.assert_close(
        found(rule, many) * scale, found(rule, longer), rtol=1e-5, atol=1e-6 * scale
    )


@by_name
@given(seed=SEEDS, count=COUNTS, size=OUTLIERS, together=st.booleans())
def test_liars_move_the_answer_no_further_than_stated(
    name: str, seed: int, count: int, size: float, together: bool
) -> None:
    """As many as the rule bears, of any size, each for itself or all the same."""
    faulty = (count - 3) // 2 if name == "multi_krum" else (count - 1) // 2
    rule = rule_of(name, faulty)
    assume(faulty and count >= rule.least)
    honest = draw(seed, count - faulty, spread=0.5)
    lies = [
        {key: x / flat(one).norm().item() * size for key, x in one.items()}
        for one in draw(seed + 1, faulty)
    ]
    lies = [lies[0]] * faulty if together else lies
    answer, rows = found(rule, honest + lies), [flat(x) for x in honest]
    assert bool(answer.isfinite().all())
    longest = max(x.norm().item() for x in rows)
    slack = ROUNDING * longest
    stacked = torch.stack(rows)
    if name in ("median", "trimmed_mean"):  # between honest values, everywhere
        assert bool((answer >= stacked.amin(0) - slack).all())
        assert bool((answer <= stacked.amax(0) + slack).all())
    elif name == "norm_clip":
        assert answer.norm().item() <= longest + slack
    elif name == "centered_clip":
        bound = (1 + CLIP_STEPS * faulty / count) * longest
        assert answer.norm().item() <= bound + slack
    elif name == "geometric_median":
        centre = stacked.mean(0)
        radius = max((x - centre).norm().item() for x in rows)
        bound = 2 * (count - faulty) / (count - 2 * faulty) * radius
        assert (answer - centre).norm().item() <= bound * 1.01 + slack
    else:
        widest = max((x - y).norm().item() for x in rows for y in rows)
        share = (count - faulty - 2) / (count - 2 * faulty - 1)
        bound = (1 + math.sqrt(share)) * widest
        assert all((answer - x).norm().item() <= bound + slack for x in rows)
