"""Which checkpoints go."""

import pytest

from speedtronic.pure.retention import Kept, best_of, to_delete


def kept(**losses: float | None) -> list[Kept]:
    """``s1=2.0`` is step 1 with that validation loss; ``b1`` is not finite."""
    return [Kept(int(n[1:]), n[0] == "s", loss) for n, loss in losses.items()]


@pytest.mark.parametrize(
    ("keep_last", "keep_best", "expected"),
    [
        (None, False, []),
        (1, False, [1, 2, 3]),
        (2, False, [1, 2]),
        (9, False, []),
        (1, True, [1, 3]),
        (2, True, [1]),
        (3, True, [1]),
    ],
)
def test_the_newest_and_the_best_stay(
    keep_last: int | None, keep_best: bool, expected: list[int]
) -> None:
    """Step 2 is the best of four."""
    there = kept(s4=None, s2=1.0, s1=3.0, s3=2.0)

    assert expected == to_delete(there, keep_last=keep_last, keep_best=keep_best)


def test_weights_that_are_not_finite_do_not_count() -> None:
    """They push nothing out and are never the best; the newest of them stays."""
    there = kept(s1=2.0, s2=3.0, b3=0.0, b4=None)

    assert [1, 3] == to_delete(there, keep_last=1, keep_best=False)
    assert [3] == to_delete(there, keep_last=1, keep_best=True)


def test_only_bad_ones_leave_the_newest() -> None:
    """There is something to look at."""
    assert [1] == to_delete(kept(b1=None, b2=None), keep_last=5, keep_best=True)


def test_of_equal_losses_the_newest_is_the_best() -> None:
    """It has learned for longer."""
    best = best_of(kept(s1=1.0, s2=1.0, s3=2.0))

    assert best is not None and best.step == 2
    assert best_of(kept(s1=None)) is None
    assert best_of([]) is None
