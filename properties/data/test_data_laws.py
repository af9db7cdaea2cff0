"""Laws of data as a training loop sees it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from speedtronic.pure.config import Config
from speedtronic.pure.config import Data as Section
from speedtronic.shell.data import Data, Prefetcher, open_data

BLOCK = 4
EXAMPLES = settings().max_examples // 2  # each opens data several times
ORDERS = st.sampled_from(["blocks", "offset", "documents"])
Row = tuple[int, ...]


@contextmanager
def opener(lengths: list[int], **fields: Any) -> Iterator[Any]:
    """Open documents of these lengths; every token of a document is its own id."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        ids = iter(range(256))
        path.write_bytes(
            b"|".join(bytes(33 + next(ids) % 90 for _ in range(n)) for n in lengths)
        )
        chosen = {"block_size": BLOCK, "shuffle": True, "drop_last": False, **fields}
        config = Config(
            data=Section(
                text_path=str(path),
                document_separator="|",
                validation_fraction=0.0,
                **chosen,
            )
        )
        yield lambda **shard: open_data(config, directory=Path(folder) / "c", **shard)


def rows(data: Data, steps: range) -> list[Row]:
    """Inputs and labels of each row."""
    return [row for step in steps for row in rows_of(data.train_batch(step))]


def rows_of(step: Any) -> list[Row]:
    """Inputs and labels of each row of a step."""
    return [
        (*inputs, *labels)
        for batch in step.micro_batches
        for inputs, labels in zip(
            batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True
        )
    ]


LENGTHS = st.lists(st.integers(2, 15), min_size=4, max_size=12)


@settings(max_examples=EXAMPLES)
@given(
    lengths=LENGTHS,
    order=ORDERS,
    nodes=st.integers(1, 3),
    ranks=st.integers(1, 3),
    epochs=st.integers(1, 2),
)
def test_nodes_and_ranks_together_read_what_one_would(
    lengths: list[int], order: str, nodes: int, ranks: int, epochs: int
) -> None:
    """Over all nodes and ranks the rows of the first epochs are those of one reader."""
    with opener(lengths, order=order, target_batch_size=ranks) as opened:
        alone = opened(ranks=ranks)
        size = alone._sources[0].rows
        if size < nodes:
            return
        found: list[Row] = []
        for node in range(nodes):
            share = len(range(node, size, nodes))
            mine = [
                rows(opened(node=node, nodes=nodes, rank=rank, ranks=ranks), steps)
                for rank in range(ranks)
                for steps in [range(-(-share * epochs // ranks))]
            ]
            dealt = [row for turn in zip(*mine, strict=True) for row in turn]
            found += dealt[: share * epochs]
    with opener(lengths, order=order) as opened:
        expected = rows(opened(), range(size * epochs))

    assert sorted(expected) == sorted(found)


@settings(max_examples=EXAMPLES)
@given(
    lengths=LENGTHS,
    order=ORDERS,
    batch=st.integers(1, 3),
    start=st.integers(0, 12),
    depth=st.integers(1, 4),
    drop_last=st.booleans(),
)
def test_resuming_and_reading_ahead_change_nothing(
    lengths: list[int],
    order: str,
    batch: int,
    start: int,
    depth: int,
    drop_last: bool,
) -> None:
    """From any position, at any depth, come the rows of the unbroken run."""
    fields = {"order": order, "target_batch_size": batch}
    with opener(lengths, **fields) as opened:
        if drop_last and opened()._sources[0].rows < batch:
            drop_last = False
    with opener(lengths, drop_last=drop_last, **fields) as opened:
        unbroken = rows(opened(), range(start + 5))
        resumed = opened()
        resumed.load_state_dict(opened().state_dict(start))
        with Prefetcher(resumed, start, depth) as ahead:
            found = [row for _ in range(5) for row in rows_of(ahead.next())]

    assert unbroken[batch * start :] == found
