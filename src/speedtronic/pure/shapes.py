"""Advice on shapes: which dimensions a device computes slowly with, and what is near.

Matrix products are fast where their dimensions are multiples of what a device takes at
once. Looked at are the dimensions that a config decides: width, head width and
feed-forward width of the reference model, vocabulary, sequence, and the rows of every
product, which are batch x sequence. It is advice: nothing is refused or changed, and
nobody promises that it is faster.

Each line assumes those before it, so that taking all of the advice leaves none.
"""

import math
from collections.abc import Iterator

import attrs

from speedtronic.pure.config import Config, Model, ShapeValidation
from speedtronic.pure.config.checks import is_factory
from speedtronic.pure.config.fields import value_at
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.transformer import feed_forward_width

_CACHE_LINE = {"fp32": 16, "bf16": 32, "fp16": 32}  # numbers in 64 bytes
_TENSOR_CORE = {"bf16": 8, "fp16": 8}  # numbers in 16 bytes


@attrs.frozen
class Advice:
    """One dimension that is not aligned, and the field that can mend it."""

    path: str  # of the field, such as model.d_model
    what: str  # the dimension in words
    found: int
    alignment: int
    suggestion: int | None  # for the field; None if no value fits

    @property
    def told(self) -> str:
        """What is found."""
        return f"{self.what} {self.found} is no multiple of {self.alignment}"

    @property
    def remedy(self) -> str:
        """What to do."""
        if self.suggestion is None:
            return f"no {self.path} near makes it one"
        return f"set {self.path}: {self.suggestion}"

    def __str__(self) -> str:
        return f"{self.path}: {self.told}; {self.remedy}"


def alignment(section: ShapeValidation, device: str, precision: str) -> int:
    """What dimensions should be a multiple of; 1 if nothing matters.

    ``auto`` is 8 for half precision on CUDA (16 bytes, which tensor cores take) and 1
    elsewhere. A CPU is only looked at with ``warn_on_cpu``; there it is a cache line.

    Args:
        section: of the config.
        device: cpu, cuda or mps.
        precision: fp32, bf16 or fp16.

    >>> alignment(ShapeValidation(), "cuda", "bf16")
    8
    >>> alignment(ShapeValidation(alignment=64), "cpu", "fp32")
    1
    """
    if not section.enabled or section.alignment == "none":
        return 1
    if device == "cpu" and not section.warn_on_cpu:
        return 1
    if isinstance(section.alignment, int):
        return section.alignment
    known = {"cuda": _TENSOR_CORE, "cpu": _CACHE_LINE}.get(device, {})
    return known.get(precision, 1)


def profile(config: Config) -> dict[str, int]:
    """The dimensions that a run computes with, by name.

    >>> profile(Config())["rows"], profile(Config())["feed-forward width"]
    (128, 688)
    """
    model = config.model
    tokens = _sequence(config)[1]
    batch = value_at(config, "data.micro_batch_size")
    rows = {} if batch == "auto" else {"rows": batch * tokens}
    own = {
        "width": model.d_model,
        "head width": model.d_model // model.n_head,
        "feed-forward width": _inner_width(model),
    }
    return {
        **(own if model.name in REFERENCE_MODELS else {}),
        "vocabulary": model.vocab_size,
        "sequence": tokens,
        **rows,
    }


def advice(config: Config, device: str, precision: str) -> tuple[Advice, ...]:
    """What to change for dimensions that are aligned; empty if all are.

    Args:
        config: of the run.
        device: cpu, cuda or mps.
        precision: fp32, bf16 or fp16, as chosen for the device.

    >>> config = Config(model=Model(d_model=250, n_head=5))
    >>> for told in advice(config, "cuda", "bf16"):
    ...     print(told)
    model.d_model: width 250 is no multiple of 8; set model.d_model: 240
    """
    section = config.shape_validation
    step = alignment(section, device, precision)
    if step == 1:
        return ()
    told: list[Advice] = []
    if section.check_model and config.model.name in REFERENCE_MODELS:
        told += _model(config.model, step)
    if section.check_vocab:
        told += _vocabulary(config.model, step)
    path, tokens = _sequence(config)
    if section.check_sequence and tokens % step:
        near = _length(config, path, tokens, step)
        told.append(Advice(path, "sequence", tokens, step, near))
        tokens = near or tokens
    if section.check_batch:
        told += _rows(config, tokens, step)
    return tuple(told)


def _model(model: Model, step: int) -> Iterator[Advice]:
    if model.d_model % step:
        # Heads that are aligned and of even width come with it.
        near = _nearest(model.d_model, model.n_head * math.lcm(step, 2))
        yield Advice("model.d_model", "width", model.d_model, step, near)
        model = attrs.evolve(model, d_model=near)
    head = model.d_model // model.n_head
    if head % step:
        heads = _heads(model, step)
        yield Advice("model.n_head", "head width", head, step, heads)
        model = attrs.evolve(model, n_head=heads or model.n_head)
    width = _inner_width(model)
    if width % step:
        near = _nearest(width, math.lcm(step, model.n_head))
        # Back through the two thirds, see `feed_forward_width`.
        yield Advice("model.d_ff", "feed-forward width", width, step, -(-3 * near // 2))


def _heads(model: Model, step: int) -> int | None:
    """The nearest number of heads whose width is aligned."""
    groups = 1 if model.n_kv_head is None else model.n_kv_head
    fitting = [
        n
        for n in range(1, model.d_model + 1)
        if model.d_model % (n * math.lcm(step, 2)) == 0 and n % groups == 0
    ]
    return min(fitting, key=lambda n: abs(n - model.n_head), default=None)


def _vocabulary(model: Model, step: int) -> Iterator[Advice]:
    size = model.vocab_size
    if size % step:  # never down: every token needs its id
        near = -(-size // step) * step
        yield Advice("model.vocab_size", "vocabulary", size, step, near)


def _rows(config: Config, tokens: int, step: int) -> Iterator[Advice]:
    batch = value_at(config, "data.micro_batch_size")
    target = value_at(config, "data.target_batch_size")
    if batch != "auto" and batch * tokens % step:
        fitting = [
            n
            for n in range(1, target + 1)
            if target % n == 0 and n * tokens % step == 0
        ]
        near = min(fitting, key=lambda n: abs(n - batch), default=None)
        yield Advice(
            "data.micro_batch_size", "batch x sequence", batch * tokens, step, near
        )


def _sequence(config: Config) -> tuple[str, int]:
    """The length of a row, and the field that says it."""
    block = value_at(config, "data.block_size")
    if block is None:
        return "model.max_seq_len", config.model.max_seq_len
    return "data.block_size", block


def _length(config: Config, path: str, tokens: int, step: int) -> int | None:
    """The nearest aligned length that the model takes."""
    near, own = _nearest(tokens, step), is_factory(config.model.name)
    if path == "data.block_size" and near > config.model.max_seq_len and not own:
        return near - step or None
    return near


def _inner_width(model: Model) -> int:
    return feed_forward_width(model.d_model, model.d_ff, model.n_head)


def _nearest(value: int, step: int) -> int:
    """The nearest multiple, at least one step."""
    low = value // step * step
    return low if low and value - low < low + step - value else low + step
