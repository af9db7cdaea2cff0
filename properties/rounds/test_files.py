"""Over files, row by row: the same bits as the definition in memory."""

import tempfile
from pathlib import Path

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from speedtronic.pure.aggregate import Aggregator, aggregate, mean, token_mean
from speedtronic.pure.delta import Delta, Weights, named
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule, init_outer, outer_step
from speedtronic.pure.reduction import ROW
from speedtronic.pure.round.rule import RoundRule
from speedtronic.pure.rules import NAMES
from speedtronic.pure.tree import named_leaves, tree_map
from speedtronic.shell.aggregate_files import outer_step_from_files

SIZES = st.sampled_from([0, 1, 3, 20, ROW - 1, ROW, ROW + 1, 2 * ROW + 5])
OUTER = st.sampled_from(
    [OuterRule(), OuterRule(nesterov=False), OuterRule(learning_rate=1.0, momentum=0.0)]
)
RULES = st.sampled_from(
    [mean(), token_mean(), mean(discount=True)]
    + [
        RoundRule(aggregate=name, faulty=faulty, discount=discount).aggregator
        for name in NAMES
        for faulty in (0, 1)
        for discount in (False, True)
    ]
)


@given(
    sizes=st.lists(SIZES, max_size=3),
    nodes=st.integers(0, 6),
    outer=OUTER,
    rule=RULES,
    seed=st.integers(0, 2**31),
)
def test_files_give_the_bits_of_the_definition(
    sizes: list[int], nodes: int, outer: OuterRule, rule: Aggregator, seed: int
) -> None:
    """Two rounds; sizes around a row (as in reports of buckets that were left out),
    scalars, complex and narrow tensors, buffers that only some nodes changed."""
    assume(nodes == 0 or nodes >= rule.least)
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    def params() -> dict[str, Tensor]:
        real = {f"w{n}": draw(size) for n, size in enumerate(sizes)}
        return real | {"s": draw(), "c": draw(2, 3, dtype=torch.complex64)}

    def buffers() -> dict[str, Tensor]:
        return {
            "mean": draw(5).bfloat16(),
            "double": draw(5).double(),
            "count": torch.randint(0, 99, (), generator=generator),
            "flag": draw(3) > 0,
        }

    start = Weights(params=params(), buffers=buffers())
    pure = init_outer(start, outer)
    donated = init_outer(tree_map(torch.clone, start), outer)
    with tempfile.TemporaryDirectory() as name:
        for number in range(2):
            deltas = {}
            files = {}
            for n in range(nodes):
                origin = Origin(
                    f"n{n}", "s", number, tokens=n + 1, staleness=n % 2, steps=n
                )
                kept = dict(list(buffers().items())[n:])
                deltas[origin] = Delta(params=params(), buffers=kept)
                files[origin] = Path(name) / f"{n}"
                save_file(named(deltas[origin]), files[origin])
            found = aggregate(deltas, rule)
            pure, info = outer_step(pure, found, outer)
            donated, told = outer_step_from_files(donated, files, rule, outer)
            torch.testing.assert_close(info.delta_norm, told.delta_norm)
    for path, x in named_leaves(pure).items():
        other = named_leaves(donated)[path]
        assert x.dtype == other.dtype
        assert torch.equal(x, other), path
