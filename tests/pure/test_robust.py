"""Robust rules in cases that are known."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from speedtronic.pure.aggregate import Aggregator, aggregate, token_mean
from speedtronic.pure.delta import Delta
from speedtronic.pure.origin import Origin
from speedtronic.pure.robust import (
    centered_clip,
    clipped,
    geometric_median,
    median,
    multi_krum,
    norm_clip,
    trimmed_mean,
)
from speedtronic.testing.purity import check_pure

INF, NAN = float("inf"), float("nan")
ROBUST = {
    "norm_clip": norm_clip(),
    "median": median(),
    "trimmed_mean": trimmed_mean(),
    "geometric_median": geometric_median(),
    "centered_clip": centered_clip(),
    "multi_krum": multi_krum(),
}
every_rule = pytest.mark.parametrize("rule", ROBUST.values(), ids=ROBUST.keys())


def of(number: int, *, steps: int = 1, staleness: int = 0, tokens: float = 1) -> Origin:
    return Origin(f"n{number}", "s", 1, steps=steps, staleness=staleness, tokens=tokens)


def deltas(*values: list[float]) -> dict[Origin, Delta]:
    return {
        of(n): Delta(params={"w": torch.tensor(w)}, buffers={})
        for n, w in enumerate(values)
    }


def result(rule: Aggregator, *values: list[float]) -> list[float]:
    found = aggregate(deltas(*values), rule)
    assert found is not None
    return list(found.params["w"].tolist())


def with_buffers(*values: dict[str, Tensor]) -> dict[Origin, Delta]:
    params = {"w": torch.ones(1)}
    return {of(n): Delta(params=params, buffers=b) for n, b in enumerate(values)}


@every_rule
def test_too_few_are_refused(rule: Aggregator) -> None:
    """Of one or two nobody can tell which is wrong; none is a round without change."""
    assert None is aggregate({}, rule)
    for count in range(1, rule.least):
        with pytest.raises(ValueError, match=f"at least {rule.least} deltas.*{count}"):
            result(rule, *[[1.0]] * count)
    assert [1.0] == pytest.approx(result(rule, *[[1.0]] * rule.least))


@every_rule
def test_nothing_but_zeros_is_zero(rule: Aggregator) -> None:
    """No length or distance that is divided by is zero."""
    assert [0.0, 0.0] == result(rule, *[[0.0, 0.0]] * 5)


@every_rule
@pytest.mark.parametrize("size", [1e-30, 1e6, 3e38])
def test_one_of_five_cannot_ruin_a_round(rule: Aggregator, size: float) -> None:
    """Of any size; that of norm clipping may turn it, but not lengthen it."""
    honest = [[1.0, 0.0], [1.0, 0.5], [1.0, -0.5], [1.5, 0.0]]
    x, y = result(rule, *honest, [-size, size])
    assert 0.2 < x < 1.5
    assert -0.5 <= y <= 0.5


def test_the_median_of_an_even_number_is_between() -> None:
    """torch's own takes the lower one."""
    assert [5.5] == result(median(), [100.0], [0.0], [10.0], [1.0])
    assert [3e38] == pytest.approx(result(median(), *[[3e38]] * 4))  # their sum is not


def test_the_median_has_no_negative_zero() -> None:
    """Of -0.0 and 0.0 a minimum may be either, depending on the CPU."""
    for order in itertools.permutations([-0.0, 0.0, -0.0]):
        (found,) = result(median(), *[[x] for x in order])
        assert 1.0 == math.copysign(1.0, found)


def test_a_trimmed_mean_leaves_out_both_ends() -> None:
    """Of every coordinate by itself."""
    rows = [[1.0, 9.0], [2.0, 1e30], [3.0, 7.0], [-1e30, 8.0], [6.0, 0.0]]
    assert [2.0, 8.0] == result(trimmed_mean(), *rows)
    assert [2.0, 8.0] == result(trimmed_mean(2), *rows)
    assert [2.5] == result(trimmed_mean(0), [1.0], [2.0], [3.0], [4.0])


def test_norm_clip_keeps_the_direction_of_what_it_shortens() -> None:
    """To the median length, 2, times the multiple."""
    rows = [[2.0, 0.0], [0.0, 2.0], [-300.0, 400.0]]
    assert [0.8 / 3, 3.6 / 3] == pytest.approx(result(norm_clip(), *rows))
    assert [-0.4 / 3, 5.2 / 3] == pytest.approx(result(norm_clip(2.0), *rows))


def test_what_is_clipped() -> None:
    """Nothing at the bound, and nothing when all are zero."""
    assert (False, True, False) == clipped([1.0, 1.1, 1.0])
    assert (False, False, False) == clipped([0.0, 0.0, 0.0])
    assert (False, False, True) == clipped([0.0, 0.0, 1e-9])


def test_the_geometric_median_of_a_triangle() -> None:
    """Fermat's point: from it all sides are seen at 120 degrees."""
    rows = [[0.0, 0.0], [4.0, 0.0], [1.0, 3.0]]
    found = result(geometric_median(), *rows)
    pull = [0.0, 0.0]
    for row in rows:
        apart = [a - b for a, b in zip(row, found, strict=True)]
        for axis in (0, 1):
            pull[axis] += apart[axis] / math.hypot(*apart)
    assert [0.0, 0.0] == pytest.approx(pull, abs=1e-5)


def test_the_geometric_median_of_far_outliers() -> None:
    """Two of seven: near to the five, however far they are; the mean is not."""
    near = [[0.9, 1.0, 1.1], [1.1, 0.9, 1.0], [1.0, 1.1, 0.9], [1.0, 1.0, 1.0]]
    near.append([1.05, 0.95, 1.0])
    for far in (1e3, 1e6, 1e30):
        found = result(geometric_median(), *near, [far] * 3, [far] * 3)
        assert all(0.95 < x < 1.1 for x in found)


def test_a_majority_is_the_geometric_median() -> None:
    """Three equal ones of five, wherever the others are."""
    rows = [[1.0, 2.0]] * 3 + [[50.0, -8.0], [-1e9, 1e9]]
    assert [1.0, 2.0] == pytest.approx(result(geometric_median(), *rows), abs=2e-3)


def test_centered_clip_between_mean_and_median() -> None:
    """With a large radius it is the mean, with a small one far from it."""
    rows = [[1.0], [2.0], [3.0], [4.0], [90.0]]
    assert [20.0] == pytest.approx(result(centered_clip(100.0), *rows))
    (found,) = result(centered_clip(1.0), *rows)
    assert 2.5 < found < 4.0


def test_krum_takes_those_that_lie_together() -> None:
    """The mean of all but the one that is far from them."""
    rows = [[1.0, 0.0], [1.2, 0.0], [0.8, 0.2], [1.0, 0.2], [-1.0, 0.0]]
    assert [1.0, 0.1] == pytest.approx(result(multi_krum(), *rows))
    with_two = [*rows[:4], [1.0, 0.1], [9.0, 9.0], [-9.0, 9.0]]
    assert [1.0, 0.1] == pytest.approx(result(multi_krum(2), *with_two))


def test_krum_does_not_read_what_it_left_out() -> None:
    """Its share is none, not zero times something that may be infinite."""
    rows = [[1.0], [1.0], [1.0], [1.0], [3e38]]
    assert [1.0] == result(multi_krum(), *rows)


@every_rule
def test_work_of_several_rounds_is_levelled(rule: Aggregator) -> None:
    """Three times the steps and three times as far: the same as one of the others."""
    usual = Delta(params={"w": torch.tensor([1.0, 1.0])}, buffers={})
    long = Delta(params={"w": torch.tensor([3.0, 3.0])}, buffers={})
    given = {of(n, steps=50): usual for n in range(4)} | {of(4, steps=150): long}
    found = aggregate(given, rule)
    assert found is not None
    assert [1.0, 1.0] == pytest.approx(found.params["w"].tolist())


@every_rule
def test_an_old_delta_has_a_smaller_vote(rule: Aggregator) -> None:
    """Only if it is asked for: three rounds old, a half."""
    name = next(key for key, value in ROBUST.items() if value is rule)
    make = {
        "norm_clip": norm_clip,
        "median": median,
        "trimmed_mean": trimmed_mean,
        "geometric_median": geometric_median,
        "centered_clip": centered_clip,
        "multi_krum": multi_krum,
    }[name]
    old = [of(n, staleness=3 if n > 2 else 0) for n in range(5)]
    assert [1.0] * 5 == list(rule.weigh(old))
    assert [1.0, 1.0, 1.0, 0.5, 0.5] == list(make(discount=True).weigh(old))


@every_rule
def test_a_node_has_one_vote(rule: Aggregator) -> None:
    """Four streams of one node change no more than one of them."""
    honest = deltas(*[[1.0, 1.0]] * 4)
    sybil = {
        Origin("sybil", f"s{n}", 1, staleness=n % 2): Delta(
            params={"w": torch.tensor([-9.0, 9.0 + n])}, buffers={}
        )
        for n in range(4)
    }
    counted = [Origin("sybil", "s2", 1)]  # the last one with the newest base
    expected = aggregate(honest | {counted[0]: sybil[counted[0]]}, rule)
    found = aggregate(honest | sybil, rule)
    assert expected is not None and found is not None
    assert torch.equal(expected.params["w"], found.params["w"])
    with pytest.raises(ValueError, match=f"at least {rule.least} deltas"):
        aggregate(sybil, rule)


def test_the_weighted_median() -> None:
    """As if the fresh ones were there twice."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    old = {0: 3, 1: 3, 2: 0, 3: 0, 4: 0}  # staleness: votes 1/2, 1/2, 1, 1, 1
    given = {
        of(n, staleness=old[n]): Delta(params={"w": torch.tensor([x])}, buffers={})
        for n, x in enumerate(values)
    }
    found = aggregate(given, median(discount=True))
    assert found is not None
    assert [3.5] == found.params["w"].tolist()  # 1 2 33 44 55


def test_the_weighted_trimmed_mean() -> None:
    """The two ends go, whatever they weigh; what is left is weighed."""
    given = {
        of(n, staleness=3 if n == 2 else 0): Delta(
            params={"w": torch.tensor([x])}, buffers={}
        )
        for n, x in enumerate([-90.0, 1.0, 4.0, 900.0])
    }
    found = aggregate(given, trimmed_mean(discount=True))
    assert found is not None
    assert [2.0] == found.params["w"].tolist()  # (1 + 4 / 2) / 1.5


@every_rule
def test_buffers_take_the_middle(rule: Aggregator) -> None:
    """Floats, integers and booleans alike; one liar changes none of them."""
    values = [
        {"mean": 1.0, "count": 7, "flag": True},
        {"mean": 2.0, "count": 8, "flag": True},
        {"mean": 3.0, "count": 9, "flag": False},
        {"mean": 4.0, "count": 9, "flag": True},
        {"mean": 1e30, "count": 2**62, "flag": False},
    ]
    given = with_buffers(
        *[{name: torch.tensor(x) for name, x in one.items()} for one in values]
    )
    found = aggregate(given, rule)
    assert found is not None
    told = {name: x.item() for name, x in found.buffers.items()}
    assert {"mean": 3.0, "count": 9, "flag": True} == told
    assert torch.int64 == found.buffers["count"].dtype


def test_of_two_integers_the_lower_one() -> None:
    """There is none between 8 and 9."""
    given = with_buffers(*[{"n": torch.tensor(x)} for x in (7, 8, 9, 2**62)])
    found = aggregate(given, median())
    assert found is not None
    assert 8 == found.buffers["n"].item()


@every_rule
def test_a_minority_sets_no_buffer(rule: Aggregator) -> None:
    """A table that only a liar changed stays what it is."""
    five = [{"n": torch.tensor(1.0)} for _ in range(3)] + [{}, {"x": torch.ones(2)}]
    found = aggregate(with_buffers(*five), rule)
    assert found is not None
    assert ["n"] == list(found.buffers)


def test_no_delta_buys_weight() -> None:
    """A thousandfold count has twice the say of the median, or what ``cap`` says."""
    origins = [of(0, tokens=100), of(1, tokens=120), of(2, tokens=100_000)]
    assert [100, 120, 240] == list(token_mean().weigh(origins))
    assert [100, 120, 120] == list(token_mean(cap=1.0).weigh(origins))
    assert [100, 120, 100_000] == list(token_mean(cap=None).weigh(origins))
    assert [0, 120, 100_000] == list(
        token_mean(cap=1e9).weigh([of(0, tokens=0), *origins[1:]])
    )


@pytest.mark.parametrize("number", [0.0, -1.0, NAN, INF])
def test_numbers_that_make_no_rule(number: float) -> None:
    """With their name."""
    for make in (norm_clip, centered_clip):
        with pytest.raises(ValueError, match="clip: expected a finite number > 0"):
            make(number)


def test_fewer_than_none_are_not_faulty() -> None:
    """With their name."""
    for make in (trimmed_mean, multi_krum):
        with pytest.raises(ValueError, match="faulty: expected at least 0, found -1"):
            make(-1)


@every_rule
def test_robust_rules_are_pure(rule: Aggregator) -> None:
    """No delta is written to, and nothing is drawn."""
    given = deltas([1.0, 2.0], [3.0, -4.0], [0.0, 5.0], [1.0, 1.0], [2.0, 2.0])
    check_pure(
        lambda *values: aggregate(dict(zip(given, values, strict=True)), rule),
        *given.values(),
    )
