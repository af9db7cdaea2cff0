"""Many deltas become one: streaming, in a fixed order, with plain operations.

A rule is an `Aggregator`. It folds one tensor at a time, so a round can be read delta
by delta, tensor by tensor or in pieces of tensors, and the bits are the same each
time, on any CPU (`aggregate` is the definition). The order is that of
(node, stream, sequence), whatever the order of arrival: float addition has an order.

A contribution of weight zero has no vote at all, and an absent node is no zero: both
are left out of the sum and of the number that divides it. Where nothing is left the
answer is None, and `outer_step` takes that for a round that changes nothing.

A rule that looks at whole deltas, as vectors, gets the table of their inner products
(`speedtronic.pure.products`) and answers with what each is multiplied by; then the
fold is a sum. Such rules are in `speedtronic.pure.robust`.

Absent on purpose: admission. Whether a delta counts is decided before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from speedtronic.pure.delta import (
    Delta,
    Weights,
    delta_problems,
    from_named,
    named,
)
from speedtronic.pure.origin import (
    Origin,
    alike,
    discounted,
    middle,
    told,
    weight_problem,
)
from speedtronic.pure.products import Products, products, scaled
from speedtronic.pure.reduction import like_real, real
from speedtronic.pure.tree import tree_map


class Aggregator(NamedTuple):
    """A rule, as functions of tensors of one shape, or of equal pieces of them.

    ``weigh`` gives each origin its weight, at least 0. ``init`` begins with the first
    tensor and its weight, ``update`` takes the next ones in order, ``finish`` answers.
    Tensors are real and at least float32. Weights come divided by the largest one.

    The rest may be left out. ``level`` gives factors that make deltas comparable, such
    as `by_steps`; parameters are multiplied by them first. With ``combine`` parameters
    are folded with what it returns in place of the weights: it gets those, and the
    products of the levelled deltas. Deltas that it gives 0 are not folded at all,
    unless it gives 0 to all. ``buffers`` folds buffers of any dtype instead; then a
    buffer is set only if more than half of the deltas have it.
    """

    weigh: Callable[[Sequence[Origin]], Sequence[float]]
    init: Callable[[Tensor, float], Any]
    update: Callable[[Any, Tensor, float], Any]
    finish: Callable[[Any], Tensor]
    level: Callable[[Sequence[Origin]], Sequence[float]] | None = None
    combine: Callable[[Sequence[float], Products], Sequence[float]] | None = None
    needs: Literal["squares", "pairs"] = "pairs"  # what ``combine`` looks at
    buffers: "Aggregator | None" = None
    least: int = 1  # deltas with a vote that it is defined for


class Part(NamedTuple):
    """What becomes of one delta in the fold."""

    origin: Origin
    weight: float  # in the fold of buffers
    share: float | None  # in the fold of parameters; None leaves them out
    factor: float = 1.0  # parameters are multiplied by it first


class MeanState(NamedTuple):
    """A weighted sum and the sum of its weights."""

    total: Tensor
    weight: float


def mean(*, discount: bool = False) -> Aggregator:
    """Every delta counts the same.

    Args:
        discount: multiply each weight by the `staleness_weight`.

    >>> mean().weigh([Origin("a", "s", 1), Origin("b", "s", 1)])
    [1.0, 1.0]
    """
    return _mean_by(alike, discount)


def token_mean(*, cap: float | None = 2.0, discount: bool = False) -> Aggregator:
    """Every token counts the same: a delta weighs as many tokens as went into it.

    A node counts its own tokens, so no delta weighs more than ``cap`` times the median
    of those with any (of an even number, the mean of the two in the middle): a node
    that lies about its work has the say of ``cap`` nodes, not of all.

    Args:
        cap: None lets every count stand.
        discount: multiply each weight by the `staleness_weight`.

    >>> counts = {"a": 50, "b": 70, "c": 900}
    >>> three = [Origin(node, "s", 1, tokens=n) for node, n in counts.items()]
    >>> token_mean().weigh(three), token_mean(cap=None).weigh(three)
    ([50, 70, 140.0], [50, 70, 900])
    """

    def weigh(origins: Sequence[Origin]) -> list[float]:
        tokens = [origin.tokens for origin in origins]
        positive = [count for count in tokens if count > 0]
        if cap is None or not positive or any(map(weight_problem, tokens)):
            return tokens
        most = cap * middle(positive)
        return [count if count <= most else most for count in tokens]

    return _mean_by(weigh, discount)


def voters(origins: Iterable[Origin], rule: Aggregator) -> list[tuple[Origin, float]]:
    """Who has a vote, in the order of the sum, with weights of which the largest is 1.

    Raises:
        ValueError: an origin appears twice, a weight is negative or not finite, all of
            them are 0, or there are fewer deltas than the rule is defined for.

    >>> two = Origin("b", "s", 1, tokens=8), Origin("a", "s", 9, tokens=2)
    >>> [(origin.node, weight) for origin, weight in voters(two, token_mean())]
    [('a', 0.25), ('b', 1.0)]
    """
    ordered = sorted(origins)
    for one, other in zip(ordered, ordered[1:], strict=False):
        if not one < other:
            raise ValueError(f"{told(one)} appears twice")
    weights = rule.weigh(ordered)
    for origin, weight in zip(ordered, weights, strict=True):
        problem = weight_problem(weight)
        if problem:
            raise ValueError(f"{told(origin)}: {problem}")
    largest = max(weights, default=1.0)
    if not largest:
        raise ValueError(f"all {len(ordered)} weights are 0: there is no mean")
    found = [(o, w / largest) for o, w in zip(ordered, weights, strict=True) if w]
    if 0 < len(found) < rule.least:
        raise ValueError(
            f"expected at least {rule.least} deltas, which this rule needs to tell a "
            f"wrong one from the others, found {len(found)}; wait for more of them"
        )
    return found


def parts(
    order: Sequence[tuple[Origin, float]], rule: Aggregator, table: Products | None
) -> list[Part]:
    """What becomes of each delta.

    Args:
        order: of `voters`.
        rule: the same.
        table: products of the deltas as they are; only for a rule that combines.

    >>> two = [(Origin("a", "s", 1), 1.0), (Origin("b", "s", 1), 0.5)]
    >>> [part.share for part in parts(two, mean(), None)]
    [1.0, 0.5]
    """
    origins, weights = [o for o, _ in order], [w for _, w in order]
    factors: Sequence[float] = (
        rule.level(origins) if rule.level else [1.0 for _ in order]
    )
    if rule.combine is None or table is None:
        return [
            Part(o, w, w, f) for o, w, f in zip(origins, weights, factors, strict=True)
        ]
    shares = rule.combine(weights, scaled(table, factors))
    shares = [s * f for s, f in zip(shares, factors, strict=True)]
    used = [s if s or not any(shares) else None for s in shares]
    return [Part(o, w, s) for o, w, s in zip(origins, weights, used, strict=True)]


def asks(rule: Aggregator, count: int) -> bool:
    """Whether the rule has to know the products of ``count`` deltas first.

    >>> asks(mean(), 3)
    False
    """
    return rule.combine is not None and count > 0


def aggregate(deltas: Mapping[Origin, Delta], rule: Aggregator) -> Delta | None:
    """One delta for all of them; None when there are none.

    Args:
        deltas: may be lazy: values are asked for once, in order, one at a time. A rule
            that compares whole deltas holds all of them; in files they need not be in
            memory (`speedtronic.shell.aggregate_files`).
        rule: such as ``mean()``.

    Raises:
        ValueError: deltas differ in parameters, shapes or dtypes (with the node's
            name), the weights cannot be used, or there are too few for the rule.

    >>> three = {
    ...     Origin(name, "s", 1): Delta(params={"w": torch.tensor([x])}, buffers={})
    ...     for name, x in (("a", 1.0), ("b", 2.0), ("c", 6.0))
    ... }
    >>> aggregate(three, mean()).params
    {'w': tensor([3.])}
    """
    order = voters(deltas, rule)
    table = None
    if asks(rule, len(order)):
        deltas = {origin: deltas[origin] for origin, _ in order}
        _outline(deltas)
        vectors = [delta.params for delta in deltas.values()]
        table = products(vectors, crossed=rule.needs == "pairs")
    outline = Weights(params={}, buffers={})  # on the meta device: shapes and dtypes
    states: dict[str, Any] = {}
    senders: dict[str, int] = {}
    for part in parts(order, rule, table):
        delta = deltas[part.origin]
        outline = join_outline(outline, part.origin, delta)
        for path, x in named(delta).items():
            of_params = path.startswith("params.")
            weight = part.share if of_params else part.weight
            if weight is None:
                continue
            leaf = rule if of_params else buffer_rule(rule, x.dtype)
            value = times(widen(x), part.factor) if of_params else widen(x)
            states[path] = (
                leaf.update(states[path], value, weight)
                if path in states
                else leaf.init(value, weight)
            )
            senders[path] = senders.get(path, 0) + 1
        del delta
    if not order:
        return None
    found = {}
    likes = Delta(params=outline.params, buffers=outline.buffers)
    for path, like in named(likes).items():
        of_params = path.startswith("params.")
        if of_params or is_set(rule, senders[path], len(order)):
            leaf = rule if of_params else buffer_rule(rule, like.dtype)
            found[path] = narrow(like, leaf.finish(states[path]))
    return from_named(found)


def _outline(deltas: Mapping[Origin, Delta]) -> None:
    """Raise ValueError unless all deltas are of one model."""
    outline = Weights(params={}, buffers={})
    for origin, delta in deltas.items():
        outline = join_outline(outline, origin, delta)


def join_outline(outline: Weights, origin: Origin, delta: Delta) -> Weights:
    """Shapes and dtypes known so far, with those of one more delta.

    Raises:
        ValueError: it does not fit; with the node's name and the paths.

    >>> one = Delta(params={"w": torch.ones(2)}, buffers={})
    >>> join_outline(Weights(params={}, buffers={}), Origin("a", "s", 1), one).params
    {'w': tensor(..., device='meta', size=(2,))}
    """
    meta: Delta = tree_map(lambda x: x.to("meta"), delta)
    joined = Weights(
        params=outline.params or meta.params, buffers=meta.buffers | outline.buffers
    )
    problems = delta_problems(joined, meta)
    if problems:
        raise ValueError(f"{told(origin)}: {'; '.join(problems)}")
    return joined


def buffer_rule(rule: Aggregator, dtype: torch.dtype) -> Aggregator:
    """The rule for buffers of a dtype.

    Without one of its own, integers and booleans keep the largest value, and floats are
    folded as parameters are.

    >>> buffer_rule(mean(), torch.int64).update(torch.tensor(3), torch.tensor(5), 1.0)
    tensor(5)
    """
    if rule.buffers is not None:
        return rule.buffers
    return rule if dtype.is_floating_point or dtype.is_complex else _LARGEST


def is_set(rule: Aggregator, senders: int, voters: int) -> bool:
    """Whether a buffer that so many deltas have gets a new value.

    >>> is_set(mean(), 1, 3), is_set(mean()._replace(buffers=mean()), 1, 3)
    (True, False)
    """
    return senders > 0 and (rule.buffers is None or 2 * senders > voters)


def widen(x: Tensor) -> Tensor:
    """What rules work on: real parts, float32 or float64, integers that compare.

    >>> widen(torch.ones(1, dtype=torch.bfloat16))
    tensor([1.])
    """
    x = real(x)
    if x.dtype in (torch.float32, torch.float64):
        return x
    if x.is_floating_point():
        return x.to(torch.float32)
    return x.to(torch.int64) if x.dtype in (torch.uint16, torch.uint32) else x


def narrow(like: Tensor, x: Tensor) -> Tensor:
    """Undo ``widen``, with the dtype of ``like``.

    >>> narrow(torch.ones(1, dtype=torch.bfloat16), torch.ones(1))
    tensor([1.], dtype=torch.bfloat16)
    """
    return like_real(like, x).to(like.dtype)


def times(x: Tensor, weight: float) -> Tensor:
    """``x * weight``, which is rounded to the dtype of ``x``; ``x`` itself for 1.

    >>> times(torch.tensor([2.0]), 0.5)
    tensor([1.])
    """
    return x if weight == 1.0 else x * weight


def _mean_by(
    weigh: Callable[[Sequence[Origin]], Sequence[float]], discount: bool
) -> Aggregator:
    def init(x: Tensor, weight: float) -> MeanState:
        return MeanState(times(x, weight), weight)

    def update(state: MeanState, x: Tensor, weight: float) -> MeanState:
        return MeanState(state.total + times(x, weight), state.weight + weight)

    def finish(state: MeanState) -> Tensor:
        return state.total / state.weight

    return Aggregator(discounted(weigh) if discount else weigh, init, update, finish)


_LARGEST = Aggregator(
    weigh=alike,
    init=lambda x, weight: x,
    update=lambda state, x, weight: torch.maximum(state, x),
    finish=lambda state: state,
)
