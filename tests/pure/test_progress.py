"""A node's vectors: what a cut takes, and what an install leaves."""

import pytest
import torch

from speedtronic.pure.delta import Weights
from speedtronic.pure.progress import Progress, cut, install
from speedtronic.pure.round.events import Install
from speedtronic.pure.round.manifest import File
from speedtronic.testing.purity import check_pure

BASE = File("model.safetensors", "0" * 64, 4)


def weights(value: float, count: int = 0) -> Weights:
    """A model of one parameter and one buffer."""
    return Weights(
        params={"w": torch.tensor([float(value)])}, buffers={"n": torch.tensor(count)}
    )


def value(model: Weights | None) -> float:
    """Of the parameter."""
    assert model is not None
    return float(model.params["w"])


def held(error: float | None = None) -> Progress:
    """Base 10, cut at 8 (so 2 is pending), perhaps with something owed before."""
    start = Progress(base=weights(10))
    if error is not None:
        owed = cut(start, weights(10 - error)).sent
        start = Progress(base=weights(10), error=owed)
    return cut(start, weights(8))


def test_a_cut_takes_progress_and_debt() -> None:
    """What goes out is their sum; what leaves the progress is not."""
    after = check_pure(cut, Progress(base=weights(10)), weights(8, count=3))
    assert (after.sent is after.cut, 2.0) == (True, float(after.sent.params["w"]))
    assert {"n": torch.tensor(3)} == after.sent.buffers
    owing = held(error=0.5)
    assert owing.sent is not None
    assert owing.cut is not None
    assert (2.5, 2.0) == (
        float(owing.sent.params["w"]),
        float(owing.cut.params["w"]),
    )


@pytest.mark.parametrize(
    ("effect", "base", "model", "owed", "pending"),
    [
        # now 7: 2 are pending, 1 was trained since
        (Install(settle="keep", base=BASE), 20.0, 17.0, 0.0, True),
        (Install(settle="keep", base=BASE, carry=False), 20.0, 20.0, 0.0, True),
        (Install(settle="count", base=BASE), 20.0, 19.0, 0.0, False),
        (Install(settle="count", base=BASE, carry=False), 20.0, 20.0, 0.0, False),
        (Install(settle="count", base=BASE, inside=False), 20.0, 17.0, 0.0, False),
        (Install(settle="undo", base=BASE), 20.0, 17.0, 0.0, False),
        (Install(settle="undo", base=BASE, carry=False), 20.0, 20.0, 2.0, False),
        (Install(settle="undo", inside=False), None, 7.0, 2.0, False),
        (Install(settle="undo"), None, None, 0.0, False),
        (Install(settle="drop", base=BASE), 20.0, 20.0, 0.0, False),
        (Install(settle="drop"), None, 10.0, 0.0, False),
    ],
    ids=[
        "moves under what is there",
        "moves alone",
        "counts",
        "counts, nothing is carried",
        "counts, and was outside",
        "comes back inside",
        "comes back as a debt",
        "comes back from outside",
        "comes back, the base stays",
        "is dropped",
        "is dropped, the base stays",
    ],
)
def test_an_install_leaves(
    effect: Install, base: float | None, model: float | None, owed: float, pending: bool
) -> None:
    """The new model, the debt, and whether something is pending still."""
    new = None if base is None else weights(base, count=5)
    after, found = check_pure(install, held(), weights(7, count=4), effect, new)
    assert (None if model is None else model) == (
        None if found is None else value(found)
    )
    debt = 0.0 if after.error is None else float(after.error.params["w"])
    assert (owed, pending) == (debt, after.sent is not None)
    if found is not None:
        assert (5 if base else 0) == int(found.buffers["n"])


def test_a_debt_is_paid_when_it_counts_and_stays_when_it_comes_back() -> None:
    """It went out with the cut that it was owed beside."""
    counted, _ = install(
        held(error=0.5), weights(7), Install(settle="count", base=BASE), weights(20)
    )
    back, _ = install(held(error=0.5), weights(7), Install(settle="undo"), None)
    assert None is counted.error
    assert back.error is not None
    assert 0.5 == float(back.error.params["w"])


def test_a_node_that_waited_takes_the_global_exactly() -> None:
    """Not only to rounding: nothing is left of the progress."""
    base, now, new = (Weights(params={"w": torch.randn(99)}, buffers={}) for _ in "123")
    after, found = install(
        cut(Progress(base=base), now), now, Install(settle="count", base=BASE), new
    )
    assert found is not None
    assert torch.equal(new.params["w"], found.params["w"])
    assert new is after.base
