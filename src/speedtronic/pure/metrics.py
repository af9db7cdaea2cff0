"""What a run tells: the record of a logged step, its cadence and bounded summaries.

All numbers are plain Python numbers: whoever makes a record has already copied what
it needs from the device, once, for a step that `due` named. Nothing here imports
torch.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

EVENTS: Mapping[str, str] = {
    "train_start": "an attempt begins",
    "resume": "an attempt continues from a checkpoint",
    "train_step": "a logged step",
    "optimizer_step_skipped": "steps without target or finite gradient did nothing",
    "evaluate": "held-out data was looked at",
    "checkpoint": "a checkpoint was taken; the next one waits until it is on disk",
    "compile": "the step was compiled",
    "train_end": "an attempt ends",
    "outer_step": "a round was adopted or published",
    "delta_upload_queued": "a delta waits for its upload",
    "delta_upload_uploaded": "a delta is on the lane",
    "delta_upload_skipped": "a delta was not sent",
    "delta_upload_failed": "an upload failed",
    "delta_upload_stale": "a delta was refused as too old",
    "shape_profile": "the shapes that the run computes with",
    "shape_warning": "advice about a shape",
    "ooo_backprop": "the out-of-order backward was switched on",
}
MAY_BE_NULL = ("tokens_per_second", "memory_bytes")


@attrs.frozen(kw_only=True)
class StepRecord:
    """Everything told about one logged step.

    Seconds are those since the previous record, as the training thread spent them.
    Cumulative numbers go on over a resume.
    """

    step: int  # finished steps, this one included
    attempt: int  # 1 for the first process that trained the run, one more per resume
    time: float  # seconds since 1970
    wall_seconds: float  # cumulative time spent in training
    learning_rate: float  # as applied in this step
    loss: float  # mean over the counted targets of this step, nats; NaN without any
    gradient_norm: float  # 2-norm before clipping, loss scale taken out
    samples: int  # cumulative
    tokens: int  # cumulative
    tokens_per_second: float | None  # without compile, evaluation and checkpoint time
    data_seconds: float  # waiting for batches
    compute_seconds: float  # everything that is not one of the others
    evaluation_seconds: float
    checkpoint_seconds: float
    compile_seconds: float
    round_seconds: float  # meeting other nodes: handing over, taking in, pausing
    memory_bytes: int | None  # held on the device by this process
    skipped_steps: int  # cumulative, gradient not finite
    mfu: float | None = None  # share of the peak that the model's products take
    loss_scale: float | None = None  # of fp16
    validation_loss: float | None = None  # nats per target, if evaluated after it
    bits_per_byte: float | None = None  # of the validation text
    average_validation_loss: float | None = None  # of the averaged weights, if any
    metrics: Mapping[str, float] = attrs.field(factory=dict)  # the model's own


def due(step: int, every: int, last_step: int | None) -> bool:
    """Whether ``step`` is logged: the first, the last, and every ``every``-th.

    It is asked before anything is computed for a record, so that the other steps
    never wait for the device.

    Args:
        step: number of finished steps, this one included.
        every: steps between records, at least 1.
        last_step: the step at which the run ends, None if time ends it.

    >>> [step for step in range(1, 9) if due(step, 3, last_step=8)]
    [1, 3, 6, 8]
    """
    return step == 1 or step == last_step or step % every == 0


def record_from(fields: Mapping[str, Any]) -> StepRecord:
    """The record in a ``train_step`` line; other names in it are left out.

    Raises:
        ValueError: naming what is missing or not a number.
    """
    own = attrs.fields(StepRecord)
    required = [field.name for field in own if field.default is attrs.NOTHING]
    bad = [
        name
        for name in required
        if name not in fields
        or not isinstance(fields[name], int | float)
        and name not in MAY_BE_NULL
    ]
    if bad:
        raise ValueError(f"not the record of a step, see {', '.join(bad)}")
    names = [field.name for field in own if field.name in fields]
    return StepRecord(**{name: fields[name] for name in names})


def scalars(record: StepRecord) -> dict[str, float]:
    """A record as trackers show it: numbers by grouped name, absent ones left out.

    ``step`` and ``time`` are not among them: they are where the numbers stand.
    """
    values = attrs.asdict(record)
    own = values.pop("metrics")
    del values["step"], values["time"]
    grouped = {_grouped(name): value for name, value in values.items()}
    grouped |= {f"model/{name}": value for name, value in own.items()}
    return {name: value for name, value in grouped.items() if value is not None}


def _grouped(name: str) -> str:
    if name in ("validation_loss", "bits_per_byte", "average_validation_loss"):
        return f"validation/{name.replace('validation_', '')}"
    if name.endswith("_seconds"):
        return f"seconds/{name.removesuffix('_seconds')}"
    return f"train/{name}"


@attrs.frozen(kw_only=True)
class Summary:
    """One number over a whole run in constant memory, a fold over its records."""

    capacity: int = 256  # points of the curve, at most
    count: int = 0  # values seen
    non_finite: int = 0  # of those, how many were NaN or infinite
    last: tuple[int, float] | None = None  # (step, value), finite or not
    min: tuple[int, float] | None = None  # over the finite values; the first of equals
    max: tuple[int, float] | None = None
    total: float = 0.0  # sum of the finite values, in order
    stride: int = 1  # the curve holds every stride-th value
    points: tuple[tuple[int, float], ...] = ()

    @property
    def mean(self) -> float | None:
        """Mean of the finite values, None if there are none."""
        finite = self.count - self.non_finite
        return self.total / finite if finite else None

    @property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """At most ``capacity + 1`` (step, value) pairs, the last value among them."""
        if self.last is None or self.points[-1] == self.last:
            return self.points
        return (*self.points, self.last)


def add(summary: Summary, step: int, value: float) -> Summary:
    """The summary with one more value.

    The curve keeps every ``stride``-th value; when it is full every second point is
    dropped and the stride doubles, so that it spans the run however long that gets.

    >>> summary = Summary(capacity=2)
    >>> for step, value in enumerate([5.0, 3.0, float("nan"), 4.0]):
    ...     summary = add(summary, step, value)
    >>> summary.min, summary.mean, summary.non_finite, summary.stride
    ((1, 3.0), 4.0, 1, 2)
    >>> summary.curve
    ((0, 5.0), (2, nan), (3, 4.0))
    """
    point = (step, value)
    finite = math.isfinite(value)
    keep = summary.count % summary.stride == 0
    points = (*summary.points, point) if keep else summary.points
    full = len(points) > summary.capacity
    lowest, highest = summary.min, summary.max
    return attrs.evolve(
        summary,
        count=summary.count + 1,
        non_finite=summary.non_finite + (not finite),
        last=point,
        min=point if finite and (lowest is None or value < lowest[1]) else lowest,
        max=point if finite and (highest is None or value > highest[1]) else highest,
        total=summary.total + value if finite else summary.total,
        stride=summary.stride * 2 if full else summary.stride,
        points=points[::2] if full else points,
    )


def sparkline(values: Sequence[float], width: int, marks: str = "_.-=*#") -> str:
    """A curve as one line of text, a mark per value or per group of values.

    Args:
        values: what to draw; numbers that are not finite become ``!``.
        width: most characters to use.
        marks: from low to high.

    >>> sparkline([3.0, 2.0, 1.0, float("nan"), 0.5], width=5)
    '#=.!_'
    """
    taken = min(width, len(values))
    shown = [values[i * (len(values) - 1) // max(1, taken - 1)] for i in range(taken)]
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return "!" * len(shown)
    low = min(finite)
    span = max(finite) - low
    steps = len(marks) - 1 if 0 < span < math.inf else 0
    return "".join(
        marks[round((value - low) / span * steps) if steps else 0]
        if math.isfinite(value)
        else "!"
        for value in shown
    )
