"""Many deltas become one: streaming, in a fixed order, with plain operations.

A rule is an `Aggregator`. It folds one tensor at a time, so a round can be read delta
by delta, tensor by tensor or in pieces of tensors, and the bits are the same each
time, on any CPU (`aggregate` is the definition). The order is that of
(node, stream, sequence), whatever the order of arrival: float addition has an order.

A contribution of weight zero has no vote at all, and an absent node is no zero: both
are left out of the sum and of the number that divides it. Where nothing is left the
answer is None, and `outer_step` takes that for a round that changes nothing.

Absent on purpose: admission. Whether a delta counts is decided before.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import torch
from torch import Tensor

from speedtronic.pure.delta import (
    Delta,
    Weights,
    delta_problems,
    from_named,
    named,
)
from speedtronic.pure.reduction import like_real, real
from speedtronic.pure.tree import tree_map


@attrs.frozen(order=True)
class Origin:
    """Who did the work of a delta, and how much of it; sorts in the order of sums."""

    node: str
    stream: str
    sequence: int  # number of the delta in its stream
    tokens: float = attrs.field(default=1, order=False)  # counted targets
    staleness: int = attrs.field(default=0, order=False)  # rounds since its base


class Aggregator(NamedTuple):
    """A rule, as functions of tensors of one shape, or of equal pieces of them.

    ``weigh`` gives each origin its weight, at least 0. ``init`` begins with the first
    tensor and its weight, ``update`` takes the next ones in order, ``finish`` answers.
    Tensors are real and at least float32. Weights come divided by the largest one.
    """

    weigh: Callable[[Sequence[Origin]], Sequence[float]]
    init: Callable[[Tensor, float], Any]
    update: Callable[[Any, Tensor, float], Any]
    finish: Callable[[Any], Tensor]


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
    return _mean_by(lambda origin: 1.0, discount)


def token_mean(*, discount: bool = False) -> Aggregator:
    """Every token counts the same: a delta weighs as many tokens as went into it.

    >>> two = Origin("a", "s", 1, tokens=50), Origin("b", "s", 1, tokens=200)
    >>> token_mean().weigh(two)
    [50, 200]
    """
    return _mean_by(lambda origin: origin.tokens, discount)


def staleness_weight(staleness: int) -> float:
    """``(1 + s) ** -0.5`` for a delta whose base is s rounds old (arXiv:2401.09135).

    Written with a square root, which every machine rounds in the same way. It is a
    share of the mean: a round of equally stale deltas is not made smaller.

    >>> staleness_weight(0), staleness_weight(3)
    (1.0, 0.5)
    """
    return 1.0 / math.sqrt(1 + staleness)


def weight_problem(weight: float) -> str | None:
    """Why ``weight`` (or a number of tokens) cannot count; None when it can.

    >>> weight_problem(float("nan"))
    'nan is no weight, expected a finite number, at least 0'
    """
    if math.isfinite(weight) and weight >= 0:
        return None
    return f"{weight!r} is no weight, expected a finite number, at least 0"


def voters(origins: Iterable[Origin], rule: Aggregator) -> list[tuple[Origin, float]]:
    """Who has a vote, in the order of the sum, with weights of which the largest is 1.

    Raises:
        ValueError: an origin appears twice, a weight is negative or not finite, or
            all of them are 0.

    >>> two = Origin("b", "s", 1, tokens=8), Origin("a", "s", 9, tokens=2)
    >>> [(origin.node, weight) for origin, weight in voters(two, token_mean())]
    [('a', 0.25), ('b', 1.0)]
    """
    ordered = sorted(origins)
    for one, other in zip(ordered, ordered[1:], strict=False):
        if not one < other:
            raise ValueError(f"{_told(one)} appears twice")
    weights = rule.weigh(ordered)
    for origin, weight in zip(ordered, weights, strict=True):
        problem = weight_problem(weight)
        if problem:
            raise ValueError(f"{_told(origin)}: {problem}")
    largest = max(weights, default=1.0)
    if not largest:
        raise ValueError(f"all {len(ordered)} weights are 0: there is no mean")
    return [(o, w / largest) for o, w in zip(ordered, weights, strict=True) if w]


def aggregate(deltas: Mapping[Origin, Delta], rule: Aggregator) -> Delta | None:
    """One delta for all of them; None when there are none.

    Args:
        deltas: may be lazy: values are asked for once, in order, one at a time.
        rule: such as ``mean()``.

    Raises:
        ValueError: deltas differ in parameters, shapes or dtypes, or the weights
            cannot be used; with the node's name.

    >>> three = {
    ...     Origin(name, "s", 1): Delta(params={"w": torch.tensor([x])}, buffers={})
    ...     for name, x in (("a", 1.0), ("b", 2.0), ("c", 6.0))
    ... }
    >>> aggregate(three, mean()).params
    {'w': tensor([3.])}
    """
    order = voters(deltas, rule)
    outline = Weights(params={}, buffers={})  # on the meta device: shapes and dtypes
    states: dict[str, Any] = {}
    for origin, weight in order:
        delta = deltas[origin]
        outline = join_outline(outline, origin, delta)
        for path, x in named(delta).items():
            leaf = leaf_rule(rule, x.dtype)
            states[path] = (
                leaf.update(states[path], widen(x), weight)
                if path in states
                else leaf.init(widen(x), weight)
            )
        del delta
    if not order:
        return None
    likes = named(Delta(params=outline.params, buffers=outline.buffers))
    return from_named(
        {
            path: narrow(like, leaf_rule(rule, like.dtype).finish(states[path]))
            for path, like in likes.items()
        }
    )


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
        raise ValueError(f"{_told(origin)}: {'; '.join(problems)}")
    return joined


def leaf_rule(rule: Aggregator, dtype: torch.dtype) -> Aggregator:
    """The rule for tensors of a dtype: integers and booleans keep the largest value.

    >>> leaf_rule(mean(), torch.int64).update(torch.tensor(3), torch.tensor(5), 1.0)
    tensor(5)
    """
    return rule if dtype.is_floating_point or dtype.is_complex else _LARGEST


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


def _mean_by(weight: Callable[[Origin], float], discount: bool) -> Aggregator:
    def weigh(origins: Sequence[Origin]) -> list[float]:
        if not discount:
            return [weight(origin) for origin in origins]
        return [weight(o) * staleness_weight(o.staleness) for o in origins]

    def init(x: Tensor, weight: float) -> MeanState:
        return MeanState(_times(x, weight), weight)

    def update(state: MeanState, x: Tensor, weight: float) -> MeanState:
        return MeanState(state.total + _times(x, weight), state.weight + weight)

    def finish(state: MeanState) -> Tensor:
        return state.total / state.weight

    return Aggregator(weigh, init, update, finish)


_LARGEST = Aggregator(
    weigh=lambda origins: [1.0 for _ in origins],
    init=lambda x, weight: x,
    update=lambda state, x, weight: torch.maximum(state, x),
    finish=lambda state: state,
)


def _times(x: Tensor, weight: float) -> Tensor:
    return x if weight == 1.0 else x * weight  # the weight is rounded to x's dtype


def _told(origin: Origin) -> str:
    return f"node {origin.node!r}, stream {origin.stream!r}, delta {origin.sequence}"
