"""Run, precision, evaluation, checkpoint, logging and compile sections."""

import attrs

from speedtronic.pure.config.base import (
    field,
    file_name,
    inner_folder,
    not_negative,
    one_of,
    positive,
    word_or,
)

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "bf16", "fp16", "fp32")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def device_name(value: str) -> str | None:
    """A device kind, with an index for CUDA."""
    kind, _, index = value.partition(":")
    if kind in DEVICES and (not index or (kind == "cuda" and index.isdigit())):
        return None
    return "one of auto, cpu, cuda, cuda:N, mps"


def lane_form(value: str) -> str | None:
    """A lane that outlives the process, by the look of it."""
    kind, _, rest = value.partition(":")
    if kind in ("dir", "hub") and rest.strip():
        return None
    return "dir:PATH or hub:OWNER/NAME"


@attrs.frozen(kw_only=True)
class Run:
    """What to train for how long, and where the results go."""

    name: str = field(
        "speedtronic-run", "name of the run and of its folder", check=file_name
    )
    seed: int = field(1234, "all randomness follows from it", check=not_negative)
    device: str = field(
        "auto", "auto, cpu, cuda, cuda:N or mps", scope="node", check=device_name
    )
    max_steps: int = field(
        1000,
        "steps to train in all, resumed ones included",
        scope="free",
        check=positive,
    )
    max_minutes: float | None = field(
        None,
        "end the schedule after this many minutes instead",
        scope="free",
        check=positive,
    )
    output_dir: str = field("runs", "folder that holds run folders", scope="node")
    log_every: int | None = field(
        None, "short for logging.every_steps", scope="free", check=positive
    )
    deterministic: bool = field(True, "only algorithms that repeat their bits")
    threads: int | None = field(
        None, "CPU threads (default: what torch chooses)", scope="node", check=positive
    )


@attrs.frozen(kw_only=True)
class Precision:
    """Arithmetic of the forward and backward pass; weights are always float32."""

    mode: str = field(
        "auto", "auto, bf16, fp16 or fp32", scope="node", check=one_of(*PRECISIONS)
    )
    dtype: str | None = field(
        None, "older name of mode", scope="node", check=one_of(*PRECISIONS)
    )
    initial_scale: float = field(
        65536.0,
        "first loss scale of fp16, for the mean over a micro-batch",
        scope="node",
        check=positive,
    )
    growth_interval: int = field(
        2000,
        "finite steps before the loss scale doubles",
        scope="node",
        check=positive,
    )
    max_skipped_steps: int = field(
        20,
        "non-finite steps in a row before the run is stopped",
        scope="node",
        check=positive,
    )


@attrs.frozen(kw_only=True)
class Evaluation:
    """Loss on held-out data; it never changes the run."""

    every_steps: int | None = field(
        None,
        "evaluate every N steps, and always at the end",
        scope="free",
        check=positive,
    )
    max_batches: int | None = field(
        None,
        "batches per evaluation (default: all of them)",
        scope="free",
        check=positive,
    )
    batch_size: int | None = field(
        None,
        "rows per evaluation batch (default: the micro-batch)",
        scope="node",
        check=positive,
    )


@attrs.frozen(kw_only=True)
class Checkpoint:
    """When to save, and what to keep."""

    enabled: bool = field(True, "save checkpoints", scope="free")
    directory: str = field(
        "checkpoints", "folder inside the run folder", scope="node", check=inner_folder
    )
    every_steps: int | None = field(
        500, "save every N steps, and always at the end", scope="free", check=positive
    )
    every_minutes: float | None = field(
        None, "save when this many minutes have passed", scope="free", check=positive
    )
    keep_last: int | None = field(
        3, "newest checkpoints to keep (null: all)", scope="free", check=positive
    )
    keep_best: bool = field(
        True,
        "also keep the one with the lowest validation loss, averaged weights included",
        scope="free",
    )
    resume: bool | str = field(
        False, "true, false, auto, a checkpoint folder, or a lane", scope="free"
    )
    lane: str | None = field(
        None,
        "also keep the newest checkpoint here: dir:PATH or hub:OWNER/NAME",
        scope="node",
        check=lane_form,
    )


@attrs.frozen(kw_only=True)
class Logging:
    """What a run tells, and to whom."""

    level: str = field("INFO", "least level shown", scope="free", check=one_of(*LEVELS))
    file: str | None = field(None, "also write log lines here", scope="node")
    every_steps: int = field(1, "steps between records", scope="free", check=positive)
    json_file: str | None = field(
        None, "metrics file (default: metrics.jsonl in the run folder)", scope="node"
    )
    progress: bool = field(True, "progress bar on a terminal", scope="node")
    hooks: tuple[str, ...] = field(
        (), "tensorboard, wandb, trackio or package.module:factory", scope="free"
    )
    project: str = field("speedtronic", "project name for trackers", scope="free")
    peak_flops: float | str = field(
        "auto",
        "operations per second that mfu is a share of: a number, auto (measured), none",
        scope="node",
        check=word_or(positive, "auto", "none"),
    )


@attrs.frozen(kw_only=True)
class Compile:
    """Compilation of the whole step."""

    enabled: bool = field(False, "compile the step with torch.compile", scope="node")
    backend: str = field("inductor", "compiler backend", scope="node")
    donate: bool = field(True, "let the step write over its own state", scope="node")


@attrs.frozen(kw_only=True)
class ShapeValidation:
    """Advice on dimensions that run slowly."""

    enabled: bool = field(True, "print the advice once", scope="free")
    alignment: int | str = field(
        "auto",
        "auto, none or a multiple",
        scope="free",
        check=lambda v: (
            None
            if v in ("auto", "none") or (isinstance(v, int) and v > 0)
            else "auto, none or a positive integer"
        ),
    )
    check_batch: bool = field(True, "look at the micro-batch", scope="free")
    check_sequence: bool = field(True, "look at the sequence length", scope="free")
    check_model: bool = field(True, "look at the model's widths", scope="free")
    check_vocab: bool = field(False, "look at the vocabulary", scope="free")
    warn_on_cpu: bool = field(False, "advise on a CPU too", scope="free")
