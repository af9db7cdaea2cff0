"""Iterable datasets as training data."""

import json
from collections.abc import Callable

import pytest
from tests.shell.data import factories

from speedtronic.errors import DataError
from speedtronic.shell.data import Data

Opened = Callable[..., Data]
HERE = "tests.shell.data.factories"


def numbers(data: Data, steps: range) -> list[int]:
    """The samples of some steps."""
    return [
        number
        for step in steps
        for batch in data.train_batch(step).micro_batches
        for number in batch.tolist()
    ]


def test_samples_come_as_they_come_and_start_again(opened: Opened) -> None:
    """Six samples in steps of four: the second step has two of the next epoch."""
    data = opened(dataset=f"{HERE}:counted", target_batch_size=4, micro_batch_size=2)

    assert [0, 1, 2, 3, 4, 5, 0, 1] == numbers(data, range(2))


@pytest.mark.parametrize("factory", ["counted", "resumable"])
def test_each_sample_goes_to_one_reader(opened: Opened, factory: str) -> None:
    """Two nodes of two ranks: each of eight samples once."""
    found = []
    for node in range(2):
        for rank in range(2):
            data = opened(
                dataset=f"{HERE}:{factory}",
                kwargs={"size": 8},
                target_batch_size=2,
                shard={"node": node, "nodes": 2, "rank": rank, "ranks": 2},
            )
            found += numbers(data, range(2))

    assert list(range(8)) == sorted(found)


@pytest.mark.parametrize("step", range(7))
def test_an_exact_position(opened: Opened, step: int) -> None:
    """With state_dict a resumed run reads what the unbroken one would have."""
    fields = {"dataset": f"{HERE}:resumable", "target_batch_size": 4}
    unbroken = numbers(opened(**fields), range(7))
    first, resumed = opened(**fields), opened(**fields)
    numbers(first, range(step))
    state = json.loads(json.dumps(first.state_dict(step)))
    resumed.load_state_dict(state)

    assert resumed.exact and resumed.inexact_because is None
    assert unbroken[4 * step :] == numbers(resumed, range(step, 7))


@pytest.mark.parametrize("factory", ["counted", "resumable"])
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("step", [0, 1, 4])
def test_a_rank_goes_on_from_the_position_of_the_first(
    opened: Opened, factory: str, rank: int, step: int
) -> None:
    """A node saves no other."""
    fields = {"dataset": f"{HERE}:{factory}", "target_batch_size": 6}
    shard = {"rank": rank, "ranks": 3}
    first = opened(**fields, shard={"rank": 0, "ranks": 3})
    unbroken, resumed = (opened(**fields, shard=shard) for _ in range(2))
    numbers(first, range(step))
    numbers(unbroken, range(step))
    resumed.load_state_dict(first.state_dict(step))

    assert numbers(unbroken, range(step, 7)) == numbers(resumed, range(step, 7))


def test_an_inexact_position_says_so(opened: Opened) -> None:
    """Without state_dict what was read is passed over, and the reason is told."""
    fields = {"dataset": f"{HERE}:counted", "target_batch_size": 4}
    unbroken = numbers(opened(**fields), range(5))
    first, resumed = opened(**fields), opened(**fields)
    numbers(first, range(2))
    resumed.load_state_dict(first.state_dict(2))

    assert not resumed.exact
    assert "has no state_dict and load_state_dict" in str(resumed.inexact_because)
    assert unbroken[8:] == numbers(resumed, range(2, 5))


def test_steps_come_in_order(opened: Opened) -> None:
    """There is no way back, and none ahead."""
    data = opened(dataset=f"{HERE}:counted")
    with pytest.raises(ValueError, match="comes in order: next is 0"):
        data.train_batch(1)
    numbers(data, range(3))
    with pytest.raises(ValueError, match="comes in order: next is 3"):
        data.train_batch(1)


@pytest.mark.parametrize("factory", ["counted", "resumable"])
def test_looking_at_a_step_does_not_use_it_up(opened: Opened, factory: str) -> None:
    """The last step may be asked for again, and so may the position before it."""
    data = opened(dataset=f"{HERE}:{factory}")
    before = data.state_dict(0)
    first = numbers(data, range(1))

    assert first == numbers(data, range(1))
    assert before == data.state_dict(0)
    assert [0, 1, 2] == numbers(data, range(3))


def test_fields_without_effect_are_told(opened: Opened) -> None:
    """Shuffling and workers."""
    data = opened(dataset=f"{HERE}:counted", num_workers=2, shuffle=True)

    assert {"data.shuffle has no effect", "data.num_workers has no effect"} <= {
        " ".join(note.split()[:4]) for note in data.notes
    }


def test_a_dataset_that_ends_at_once(opened: Opened) -> None:
    """It is an error, not an endless search."""
    data = opened(dataset=f"{HERE}:resumable", kwargs={"size": 0})
    with pytest.raises(DataError, match="resumable gave no sample"):
        data.train_batch(0)


def test_a_state_that_is_not_json(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be saved."""
    monkeypatch.setattr(factories.Resumable, "state_dict", lambda _: {"at": {1}})
    data = opened(dataset=f"{HERE}:resumable")
    with pytest.raises(DataError, match="its state_dict is not JSON"):
        data.state_dict(0)
