"""Laws of metrics: strict JSON for any value, bounded summaries, each step once."""

import json
import math
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from speedtronic.pure.metrics import Summary, add, due, record_from
from speedtronic.pure.strict_json import NON_FINITE, from_json, to_json
from speedtronic.shell.metrics import Past, read_log, resume_log, start_log
from speedtronic.testing.records import example_record

floats = st.floats()  # NaN, infinities and subnormals among them
text = st.text(st.characters(codec="utf-8"), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | text,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(text.filter(lambda key: key != NON_FINITE), values)


def bits(value: Any) -> Any:
    """The value with floats as bits, so that NaN equals NaN and 0.0 is not -0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [bits(item) for item in value]
    return value


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@given(objects)
def test_any_object_is_one_strict_line_and_comes_back(fields: dict[str, Any]) -> None:
    """What JSON has no number for is not lost either."""
    line = to_json(fields)
    json.loads(line, parse_constant=refuse)

    assert line.isascii() and "\n" not in line
    assert bits(fields) == bits(from_json(line))


@given(floats, floats, st.dictionaries(text, floats, max_size=3))
def test_any_record_comes_back(loss: float, norm: float, own: dict[str, float]) -> None:
    """Whatever a model says."""
    record = example_record(3, loss=loss, gradient_norm=norm, metrics=own)
    back = record_from(from_json(to_json(attrs.asdict(record))))

    assert bits(attrs.asdict(record)) == bits(attrs.asdict(back))


@given(st.lists(floats, max_size=200), st.integers(1, 16))
def test_a_summary_is_bounded_and_equals_brute_force(
    series: list[float], capacity: int
) -> None:
    """Count, extremes, mean and curve are those of the whole list."""
    summary = Summary(capacity=capacity)
    for step, value in enumerate(series):
        summary = add(summary, step, value)
    points = list(enumerate(series))
    finite = [(step, value) for step, value in points if math.isfinite(value)]
    total = 0.0
    for _, value in finite:
        total += value
    stride = 1
    while len(points[::stride]) > capacity:
        stride *= 2
    curve = points[::stride]
    if points and (len(points) - 1) % stride:
        curve.append(points[-1])

    assert len(summary.curve) <= capacity + 1
    assert (len(points), len(points) - len(finite)) == (
        summary.count,
        summary.non_finite,
    )
    assert bits([list(p) for p in curve]) == bits([list(p) for p in summary.curve])
    assert min(finite, key=lambda p: p[1], default=None) == summary.min
    assert max(finite, key=lambda p: p[1], default=None) == summary.max
    assert bits(total / len(finite) if finite else None) == bits(summary.mean)


@contextmanager
def metrics_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "metrics.jsonl"


@attrs.frozen
class Attempt:
    """One process: resumed from a share of what was reached, trained, then killed."""

    kept: float  # share of the steps so far that the checkpoint holds
    steps: int  # trained before the kill
    torn: int  # bytes of the last line that did not reach the file


attempts = st.builds(
    Attempt,
    kept=st.floats(0, 1),
    steps=st.integers(0, 12),
    torn=st.sampled_from([0, 0, 1, 2, 40]),
)


def loss_of(step: int) -> float:
    """The same value whoever computes it: resumes are exact."""
    return math.nan if step % 7 == 0 else 10.0 / step


def train(path: Path, first: bool, begin: int, end: int, every: int) -> Past:
    """One attempt; what its log says of the whole run."""
    log = (
        start_log(path, every=every, last_step=None)
        if first
        else resume_log(path, begin, every=every, last_step=None)
    )
    with log:
        for step in range(begin + 1, end + 1):
            if step % 5 == 1 and step > 5:
                log.event("checkpoint", step - 1)  # behind the training
            if log.due(step):
                held_out = loss_of(step) if step % 4 == 0 else None
                log.write(
                    example_record(
                        step,
                        attempt=log.attempt,
                        loss=loss_of(step),
                        validation_loss=held_out,
                    )
                )
    return log.past


@given(st.lists(attempts, min_size=1, max_size=5), st.integers(1, 4))
def test_any_mixture_of_kills_and_resumes_tells_each_step_once(
    history: list[Attempt], every: int
) -> None:
    """The readable result and its summary are those of a run that never stopped."""
    last = 40
    with metrics_file() as path, metrics_file() as unbroken:
        reached = 0
        for number, attempt in enumerate(history):
            begin = int(attempt.kept * reached)
            reached = begin + attempt.steps
            train(path, number == 0, begin, reached, every)
            size = path.stat().st_size
            # A checkpoint follows the lines of its steps, so a torn line is of a
            # later step; the next attempt resumes from before it.
            if attempt.torn and attempt.steps and size > attempt.torn:
                with path.open("rb+") as file:
                    file.truncate(size - attempt.torn)
                reached = begin
        past = train(path, False, reached, last, every)
        expected = train(unbroken, True, 0, last, every)
        lines = path.read_bytes().splitlines()
        for line in lines:
            json.loads(line, parse_constant=refuse)
        told = [x for x in read_log(path) if x["event"] == "train_step"]

    logged = [step for step in range(1, last + 1) if due(step, every, None)]
    numbers = [from_json(line)["attempt"] for line in lines]
    assert logged == [x["step"] for x in told]
    assert numbers == sorted(numbers)
    assert bits(summaries(expected)) == bits(summaries(past))


def summaries(past: Past) -> list[Any]:
    """Both summaries as plain values."""
    pair = (past.loss, past.validation_loss)
    return [json.loads(json.dumps(attrs.asdict(x))) for x in pair]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(0, 9),
    st.integers(0, 300),
)
def test_a_resume_keeps_other_lines_byte_for_byte(
    steps: list[int], resumed_from: int, torn: int
) -> None:
    """Whatever order lines came in, those of kept steps do not change."""
    with metrics_file() as path:
        with start_log(path, every=1, last_step=None) as log:
            for step in steps:
                log.event("checkpoint", step)
        whole = path.read_bytes()[: -torn or None]
        path.write_bytes(whole)
        kept = [
            line
            for line in whole.splitlines(keepends=True)
            if line.endswith(b"\n") and from_json(line)["step"] <= resumed_from
        ]
        resume_log(path, resumed_from, every=1, last_step=None).close()
        found = path.read_bytes().splitlines(keepends=True)

    assert kept == found[:-1]
    assert "resume" == from_json(found[-1])["event"]
