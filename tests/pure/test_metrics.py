"""Records, cadence, and bounded summaries."""

import math
from pathlib import Path

import attrs
import pytest

from speedtronic.pure.metrics import (
    EVENTS,
    StepRecord,
    Summary,
    add,
    due,
    record_from,
    scalars,
    sparkline,
)
from speedtronic.testing.records import example_record


@pytest.mark.parametrize(
    ("every", "last_step", "logged"),
    [
        (1, 5, [1, 2, 3, 4, 5]),
        (2, 5, [1, 2, 4, 5]),
        (10, 5, [1, 5]),
        (5, None, [1, 5]),
        (4, 4, [1, 4]),
    ],
)
def test_first_and_last_are_always_due(
    every: int, last_step: int | None, logged: list[int]
) -> None:
    """A step is logged if it is the first, the last, or a multiple."""
    assert logged == [step for step in range(1, 6) if due(step, every, last_step)]


def test_a_record_is_frozen() -> None:
    """A record is a value."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        example_record(1).loss = 0.0  # type: ignore[misc]


def test_a_record_comes_back_from_its_fields() -> None:
    """Names that a record does not know are left out, absent ones take defaults."""
    record = example_record(3, metrics={"entropy": 0.5})
    fields = attrs.asdict(record) | {"event": "train_step"}
    del fields["loss_scale"]

    assert record == record_from(fields)


@pytest.mark.parametrize("change", [{"loss": None}, {"step": "3"}], ids=repr)
def test_a_field_that_is_no_number_is_named(change: dict[str, object]) -> None:
    """A damaged line does not become a record."""
    with pytest.raises(ValueError, match=f"see {next(iter(change))}"):
        record_from(attrs.asdict(example_record(3)) | change)


def test_missing_fields_are_named() -> None:
    """All of them at once."""
    fields = attrs.asdict(example_record(3))
    del fields["loss"], fields["tokens"]

    with pytest.raises(ValueError, match="see loss, tokens"):
        record_from(fields)


def test_scalars_are_grouped_and_absent_ones_left_out() -> None:
    """What a tracker shows: one name per number."""
    record = example_record(
        2, metrics={"entropy": 0.5}, validation_loss=2.0, memory_bytes=None
    )

    assert {
        "train/attempt": 1,
        "seconds/wall": 1.0,
        "train/learning_rate": 1e-3,
        "train/loss": 5.0,
        "train/gradient_norm": 0.8125,
        "train/samples": 16,
        "train/tokens": 2048,
        "train/tokens_per_second": 2048.0,
        "seconds/data": 0.125,
        "seconds/compute": 0.375,
        "seconds/evaluation": 0.0,
        "seconds/checkpoint": 0.0,
        "seconds/round": 0.0,
        "seconds/compile": 0.0,
        "train/skipped_steps": 0,
        "validation/loss": 2.0,
        "model/entropy": 0.5,
    } == scalars(record)


def test_every_number_of_a_record_reaches_trackers() -> None:
    """No field is forgotten."""
    full = example_record(
        2,
        mfu=0.5,
        loss_scale=2.0,
        validation_loss=2.0,
        bits_per_byte=1.0,
        average_validation_loss=1.9,
        metrics={},
    )
    names = {field.name for field in attrs.fields(StepRecord)}

    assert len(names - {"step", "time", "metrics"}) == len(scalars(full))


def test_a_summary_of_nothing_is_empty() -> None:
    """No value, no number."""
    summary = Summary()

    assert (0, None, None, None, ()) == (
        summary.count,
        summary.mean,
        summary.min,
        summary.last,
        summary.curve,
    )


def test_a_summary_holds_non_finite_values_apart() -> None:
    """NaN and infinity are counted and shown, but never the least or the mean."""
    summary = Summary()
    for step, value in enumerate([math.nan, 2.0, math.inf, -math.inf, 1.0], start=1):
        summary = add(summary, step, value)

    assert (5, 3, (5, 1.0), (2, 2.0), 1.5) == (
        summary.count,
        summary.non_finite,
        summary.min,
        summary.max,
        summary.mean,
    )


def test_the_first_of_equal_values_is_kept() -> None:
    """The best step is the earliest that reached the value."""
    summary = Summary()
    for step in (1, 2, 3):
        summary = add(summary, step, 4.0)

    assert ((1, 4.0), (1, 4.0), (3, 4.0)) == (summary.min, summary.max, summary.last)


def test_the_curve_spans_the_run_in_bounded_memory() -> None:
    """A full curve halves its points and keeps the first and the last."""
    summary = Summary(capacity=8)
    for step in range(1000):
        summary = add(summary, step, float(step))

    assert [0, 128, 256, 384, 512, 640, 768, 896, 999] == [s for s, _ in summary.curve]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([1.0], "_"),
        ([1.0, 1.0], "__"),
        ([1.0, 0.0], "#_"),
        ([math.nan, math.inf], "!!"),
        ([math.nan, 1.0, 2.0], "!_#"),
        ([-1e308, 1e308], "__"),
        ([0.0, 5e-324], "_#"),
        ([float(i) for i in range(20)], "_.-=*#"),
    ],
    ids=repr,
)
def test_a_sparkline_is_one_mark_per_value(values: list[float], line: str) -> None:
    """Low is low, high is high, and any floats can be drawn."""
    assert line == sparkline(values, width=6)


def test_the_page_names_every_field_and_every_event() -> None:
    """Nothing is logged that the documentation does not explain."""
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    names = [field.name for field in attrs.fields(StepRecord)]

    assert [] == [x for x in (*names, *EVENTS) if f"`{x}`" not in page]
