"""Map-style datasets as training data."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch

from speedtronic.errors import ConfigError, DataError
from speedtronic.shell.data import Data, Prefetcher

Opened = Callable[..., Data]
HERE = "tests.shell.data.factories"


def numbers(data: Data, steps: range) -> list[int]:
    """The sample numbers of some steps."""
    return [
        number
        for step in steps
        for batch in data.train_batch(step).micro_batches
        for number in batch[0].tolist()
    ]


def values(batches: Any) -> list[Any]:
    """Batches as lists."""
    return [[x.tolist() for x in batch] for batch in batches]


def test_tuples_in_a_keyed_order(opened: Opened) -> None:
    """Ten samples, batch 2: each once in five steps."""
    data = opened(dataset=f"{HERE}:squares", target_batch_size=2)
    batch = data.train_batch(0).micro_batches[0]

    assert list(range(10)) == sorted(numbers(data, range(5)))
    assert (batch[0].float() ** 2).tolist() == batch[1].flatten().tolist()
    assert data.exact


def test_arguments_of_the_factory(opened: Opened) -> None:
    """data.kwargs go to it."""
    data = opened(dataset=f"{HERE}:squares", kwargs={"size": 4})

    assert [0, 1, 2, 3] == sorted(numbers(data, range(4)))


def test_counts(opened: Opened) -> None:
    """Without labels a row counts as one target."""
    data = opened(dataset=f"{HERE}:squares", target_batch_size=4, micro_batch_size=2)
    step = data.train_batch(0)

    assert (4, 4, 2) == (step.samples, step.tokens, len(step.micro_batches))


def test_resuming_at_any_step(opened: Opened) -> None:
    """Ten numbered samples, batch 2, three epochs: as if never interrupted."""
    fields = {"dataset": f"{HERE}:squares", "target_batch_size": 2}
    unbroken = numbers(opened(**fields), range(15))
    for step in range(15):
        state = opened(**fields).state_dict(step)
        resumed = opened(**fields)
        resumed.load_state_dict(state)

        assert unbroken[2 * step :] == numbers(resumed, range(step, 15))


def test_noise_is_a_function_of_the_position(opened: Opened) -> None:
    """Python, NumPy and torch noise is the same on a second visit of a step."""
    data = opened(dataset=f"{HERE}:squares", kwargs={"noisy": True})
    first = values(data.train_batch(3).micro_batches)
    torch.rand(3)
    data.train_batch(1)

    assert first == values(data.train_batch(3).micro_batches)
    assert first != values(data.train_batch(13).micro_batches)


def test_the_batch_size_does_not_change_the_noise(opened: Opened) -> None:
    """A sample is the same in a micro-batch of one or of two."""
    fields = {"dataset": f"{HERE}:squares", "kwargs": {"noisy": True}}
    ones = opened(**fields, target_batch_size=2).train_batch(1)
    two = opened(**fields, target_batch_size=2, micro_batch_size=2).train_batch(1)
    together = [torch.cat(column) for column in zip(*ones.micro_batches, strict=True)]

    assert [x.tolist() for x in together] == values(two.micro_batches)[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(opened: Opened, workers: int) -> None:
    """Samples, their order and their noise are those of a single process."""
    fields = {
        "dataset": f"{HERE}:squares",
        "kwargs": {"noisy": True},
        "target_batch_size": 4,
        "micro_batch_size": 2,
    }
    alone = opened(**fields)
    shared = opened(**fields, num_workers=workers)
    with Prefetcher(shared, 1, 2) as ahead:
        for step in (1, 2, 3):
            expected = alone.train_batch(step)
            found = ahead.next()

            assert values(expected.micro_batches) == values(found.micro_batches)
            assert (expected.samples, expected.tokens) == (found.samples, found.tokens)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_global_generators_are_not_drawn_from(opened: Opened, workers: int) -> None:
    """Neither starting workers nor making noisy samples moves them."""
    data = opened(
        dataset=f"{HERE}:squares", kwargs={"noisy": True}, num_workers=workers
    )
    before = torch.get_rng_state()
    with Prefetcher(data, 0, 2) as ahead:
        ahead.next()

    assert before.tolist() == torch.get_rng_state().tolist()


def test_workers_leave_interrupts_to_the_run(opened: Opened) -> None:
    """Ctrl-C reaches them too; the batch that was waited for still comes."""
    data = opened(dataset=f"{HERE}:squares", num_workers=1)
    with Prefetcher(data, 0, 1) as ahead:
        ahead.next()
        (worker,) = multiprocessing.active_children()
        os.kill(worker.pid or 0, signal.SIGINT)
        found = [ahead.next().samples for _ in range(8)]

    assert [1] * 8 == found
    assert [] == multiprocessing.active_children()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_sample(opened: Opened, workers: int) -> None:
    """It is named, with what was raised; steps before it are delivered."""
    data = opened(
        dataset=f"{HERE}:squares",
        kwargs={"broken": 2},
        num_workers=workers,
        shuffle=False,
    )
    with Prefetcher(data, 0, 2) as ahead:
        assert [0, 1] == [int(ahead.next().micro_batches[0][0]) for _ in range(2)]
        with pytest.raises(DataError) as caught:
            ahead.next()

    told = f"{HERE}:squares: sample 2: RuntimeError: no such picture"
    assert told == str(caught.value)


def test_nodes_and_ranks_share_an_epoch(opened: Opened) -> None:
    """Two nodes of two ranks together read each sample once."""
    found = []
    for node in range(2):
        for rank in range(2):
            data = opened(
                dataset=f"{HERE}:squares",
                kwargs={"size": 8},
                target_batch_size=2,
                shard={"node": node, "nodes": 2, "rank": rank, "ranks": 2},
            )
            found += numbers(data, range(2))

    assert list(range(8)) == sorted(found)


def test_a_second_dataset_is_held_out(opened: Opened) -> None:
    """A factory may return two; the last batch is short."""
    data = opened(dataset=f"{HERE}:squares_and_more")
    batches = list(data.validation_batches(2))

    assert data.has_validation
    assert [[0, 1], [2]] == [batch[0].tolist() for batch in batches]
    assert data.bytes_per_token() is None


def test_records_of_tokens(opened: Opened) -> None:
    """Causal records are filled up and their targets counted."""
    data = opened(dataset=f"{HERE}:causal", target_batch_size=8, micro_batch_size=8)
    step = data.train_batch(0)

    assert (8, 3) == tuple(step.micro_batches[0]["labels"].shape)
    assert sum(1 + i % 3 for i in range(8)) == step.tokens


@pytest.mark.parametrize(
    ("factory", "error", "told"),
    [
        ("nothing", DataError, "is empty (0 samples)"),
        ("number", DataError, "returned int, expected a dataset"),
        ("failing", DataError, "failed: OSError: the disk is on fire"),
        ("squars", ConfigError, "did you mean 'squares'"),
    ],
)
def test_factories_that_give_no_dataset(
    opened: Opened, factory: str, error: type[Exception], told: str
) -> None:
    """The factory is named, with what it did."""
    with pytest.raises(error) as caught:
        opened(dataset=f"{HERE}:{factory}")

    assert told in str(caught.value)
    assert factory in str(caught.value)


def test_more_samples_per_step_than_there_are(opened: Opened) -> None:
    """Both numbers are told."""
    with pytest.raises(DataError, match="has 10 rows per epoch, a step takes 11"):
        opened(dataset=f"{HERE}:squares", target_batch_size=11)


def test_a_file_cannot_validate_samples(opened: Opened) -> None:
    """It would be ignored."""
    with pytest.raises(ConfigError, match="gives samples, which a file cannot"):
        opened(dataset=f"{HERE}:squares", validation_path="a.txt")


def test_arguments_that_are_no_plain_values(opened: Opened) -> None:
    """A config can hold dates, a fingerprint cannot."""
    with pytest.raises(ConfigError, match="its arguments are no plain values"):
        opened(dataset=f"{HERE}:squares", kwargs={"size": {1}})
