"""Means of deltas: whose, in which order, with which weights."""

from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor, nn

from speedtronic.pure.aggregate import Aggregator, aggregate, mean, token_mean, voters
from speedtronic.pure.delta import Delta, Weights, compute_delta
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule, init_outer, outer_step
from speedtronic.testing.purity import check_pure

NAN, INF = float("nan"), float("inf")


def delta(w: float | list[float], **buffers: Tensor) -> Delta:
    return Delta(params={"w": torch.tensor(w)}, buffers=buffers)


def of(node: str, tokens: float = 1, staleness: int = 0) -> Origin:
    return Origin(node, "s", 1, tokens=tokens, staleness=staleness)


def mean_of(deltas: Mapping[Origin, Delta], rule: Aggregator) -> float:
    found = aggregate(deltas, rule)
    assert found is not None
    return found.params["w"].item()


def test_the_mean_is_of_all_nodes() -> None:
    """Not of the first one: 1, 2 and 6 have the mean 3."""
    three = {of("a"): delta(1.0), of("b"): delta(2.0), of("c"): delta(6.0)}
    assert 3.0 == mean_of(three, mean())


def test_tokens_weigh() -> None:
    """Three times the tokens count three times."""
    two = {of("a", tokens=100): delta(1.0), of("b", tokens=300): delta(5.0)}
    assert 4.0 == mean_of(two, token_mean())
    assert 3.0 == mean_of(two, mean())


def test_stale_work_weighs_less_when_asked_for() -> None:
    """Three rounds late count half; that is a share, so alone it counts in full."""
    two = {of("a", staleness=3): delta(4.0), of("b"): delta(1.0)}
    assert 2.5 == mean_of(two, mean())
    assert 2.0 == mean_of(two, mean(discount=True))
    assert 4.0 == mean_of({of("a", staleness=3): delta(4.0)}, mean(discount=True))
    tokens = {of("a", 2, staleness=3): delta(4.0), of("b", 1): delta(1.0)}
    assert 2.5 == mean_of(tokens, token_mean(discount=True))


def test_nothing_is_none() -> None:
    """An empty round has no mean, and is no error."""
    assert None is aggregate({}, mean()) is aggregate({}, token_mean())


def test_a_node_without_tokens_has_no_vote() -> None:
    """Neither has its content: it is not even looked at."""
    two = {of("a", tokens=0): delta(NAN, c=torch.tensor(9)), of("b", 5): delta(3.0)}
    found = aggregate(two, token_mean())
    assert found is not None
    assert (3.0, {}) == (found.params["w"].item(), found.buffers)


@pytest.mark.parametrize("tokens", [NAN, INF, -1, -INF])
def test_counts_that_are_none_are_refused(tokens: float) -> None:
    """With the node's name, before any arithmetic."""
    with pytest.raises(ValueError, match=r"node 'a'.* no weight"):
        aggregate({of("a", tokens): delta(1.0), of("b"): delta(1.0)}, token_mean())


def test_only_zero_counts_are_refused() -> None:
    """A mean of no tokens would be NaN."""
    with pytest.raises(ValueError, match="all 2 weights are 0"):
        aggregate({of("a", 0): delta(1.0), of("b", 0): delta(1.0)}, token_mean())


def test_huge_counts_do_not_overflow() -> None:
    """Weights are divided by the largest before they meet a float32."""
    two = {of("a", 1e300): delta(1e30), of("b", 1e300): delta(3e30)}
    assert 2e30 == pytest.approx(mean_of(two, token_mean()), rel=1e-6)


def test_a_delta_twice_is_refused() -> None:
    """Even if it claims other tokens the second time."""
    two = {of("a", tokens=1): delta(1.0), of("a", tokens=2): delta(1.0)}
    with pytest.raises(ValueError, match="appears twice"):
        aggregate(two, mean())


def test_the_order_is_by_node_stream_and_number() -> None:
    """As text and as numbers: delta 10 comes after delta 9."""
    names = [("b", "s", 1), ("a", "t", 9), ("a", "t", 10), ("a", "s", 11)]
    ordered = voters([Origin(*name) for name in names], mean())
    assert [names[3], names[1], names[2], names[0]] == [
        (origin.node, origin.stream, origin.sequence) for origin, _ in ordered
    ]


class Lazy(Mapping[Origin, Delta]):
    """Deltas that are made when asked for, and counted while they live."""

    def __init__(self, count: int) -> None:
        self.origins = [Origin(f"{n:02}", "s", 1) for n in reversed(range(count))]
        self.asked: list[str] = []

    def __getitem__(self, origin: Origin) -> Delta:
        self.asked.append(origin.node)
        return delta([float(origin.node), 1.0])

    def __iter__(self) -> Iterator[Origin]:
        return iter(self.origins)

    def __len__(self) -> int:
        return len(self.origins)


def test_deltas_are_asked_for_one_by_one() -> None:
    """Once each, in the order of the sum."""
    lazy = Lazy(5)
    found = aggregate(lazy, mean())
    assert found is not None
    assert [2.0, 1.0] == found.params["w"].tolist()
    assert ["00", "01", "02", "03", "04"] == lazy.asked


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (delta([1.0, 2.0]), "node 'b'.*params.'w'. is float32.2., expected float32.."),
        (Delta(params={}, buffers={}), "node 'b'.*params.'w'. is missing"),
        (delta(1.0, n=torch.ones(2)), "node 'b'.*buffers.'n'. is float32.2."),
    ],
)
def test_deltas_that_differ_are_refused(second: Delta, told: str) -> None:
    """With node and path."""
    first = delta(1.0, n=torch.tensor(1))
    with pytest.raises(ValueError, match=told):
        aggregate({of("a"): first, of("b"): second}, mean())


def test_kinds_of_buffers() -> None:
    """Floats are averaged in float32, integers and booleans keep the largest."""
    one = {
        "half": torch.tensor([1.0], dtype=torch.bfloat16),
        "double": torch.tensor([1.0], dtype=torch.float64),
        "count": torch.tensor(7),
        "byte": torch.tensor([255, 0], dtype=torch.uint8),
        "wide": torch.tensor([60_000, 0], dtype=torch.uint16),
        "flag": torch.tensor([True, False]),
    }
    other = {
        "half": torch.tensor([2.0], dtype=torch.bfloat16),
        "double": torch.tensor([1.0 + 2e-9], dtype=torch.float64),
        "count": torch.tensor(9),
        "byte": torch.tensor([0, 3], dtype=torch.uint8),
        "wide": torch.tensor([0, 50_000], dtype=torch.uint16),
        "flag": torch.tensor([False, False]),
    }
    found = aggregate(
        {of("a"): delta(1.0, **one), of("b"): delta(1.0, **other)}, mean()
    )
    assert found is not None
    buffers = {name: x.tolist() for name, x in found.buffers.items()}
    assert buffers == {
        "half": [1.5],
        "double": [1.0 + 1e-9],
        "count": 9,
        "byte": [255, 3],
        "wide": [60_000, 50_000],
        "flag": [True, False],
    }
    assert {n: x.dtype for n, x in one.items()} == {
        n: found.buffers[n].dtype for n in one
    }


def test_a_buffer_counts_where_it_changed() -> None:
    """The mean is over the nodes that sent it."""
    two = {of("a"): delta(1.0, n=torch.tensor([4.0])), of("b"): delta(3.0)}
    found = aggregate(two, mean())
    assert found is not None
    assert (2.0, [4.0]) == (found.params["w"].item(), found.buffers["n"].tolist())


def test_complex_parameters_are_averaged() -> None:
    """By their parts; an infinity does not spill over."""
    one = Delta(params={"w": torch.tensor([1 + 3j, complex(INF, 2)])}, buffers={})
    other = Delta(params={"w": torch.tensor([3 - 1j, complex(0, 4)])}, buffers={})
    found = aggregate({of("a", 1): one, of("b", 4): other}, token_mean())
    assert found is not None
    expected = torch.tensor([2.6 - 0.2j, complex(INF, 3.6)])
    torch.testing.assert_close(expected, found.params["w"])


def test_batch_norm_of_two_nodes() -> None:
    """Statistics of unlike data: averaged, counted, and never a negative variance."""
    start = nn.BatchNorm1d(2)
    nodes = {}
    base = weights_of(start)
    for name, shift, batches in (("a", -5.0, 3), ("b", 5.0, 4)):
        module = nn.BatchNorm1d(2)
        for number in range(batches):
            generator = torch.Generator().manual_seed(number)
            module(torch.randn(8, 2, generator=generator) * 1e-3 + shift)
        nodes[of(name)] = compute_delta(base, weights_of(module))
    rule = OuterRule()
    state = init_outer(base, rule)
    for _ in range(3):
        state, _ = outer_step(state, aggregate(nodes, rule=mean()), rule)
    buffers = state.weights.buffers
    assert 4 == buffers["num_batches_tracked"].item()
    assert buffers["num_batches_tracked"].dtype == torch.int64
    assert bool((buffers["running_var"] > 0).all())
    for name in ("running_mean", "running_var"):
        sides = [found.buffers[name] for found in nodes.values()]
        assert torch.equal((sides[0] + sides[1]) / 2, buffers[name])


def weights_of(module: nn.Module) -> Weights:
    params = {name: x.detach().clone() for name, x in module.named_parameters()}
    return Weights(
        params=params, buffers={name: x.clone() for name, x in module.named_buffers()}
    )


def test_one_s_own_rule() -> None:
    """The largest of all, say: an aggregator is four functions."""
    largest = Aggregator(
        weigh=lambda origins: [1.0 for _ in origins],
        init=lambda x, weight: x,
        update=lambda best, x, weight: torch.maximum(best, x),
        finish=lambda best: best,
    )
    assert 6.0 == mean_of({of("a"): delta(6.0), of("b"): delta(2.0)}, largest)


def test_one_s_own_weights_are_checked() -> None:
    """A rule that weighs by something else is held to the same."""
    negative = mean()._replace(weigh=lambda origins: [-1.0 for _ in origins])
    with pytest.raises(ValueError, match="no weight"):
        aggregate({of("a"): delta(1.0)}, negative)


def test_aggregation_is_pure() -> None:
    """No delta is written to, not even the first of the sum."""
    two = {of("a", 2): delta([1.0, 2.0]), of("b", 4): delta([3.0, 4.0])}
    copies = [d.params["w"].clone() for d in two.values()]
    check_pure(
        lambda a, b: aggregate(dict(zip(two, (a, b), strict=True)), token_mean()),
        *two.values(),
    )
    assert all(
        torch.equal(copy, d.params["w"])
        for copy, d in zip(copies, two.values(), strict=True)
    )
