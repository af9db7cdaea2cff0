"""``summary.json``: how a run ended, on one page.

Every run leaves one, whole or not at all, completed or not. Its size does not depend on
the length of the run. It is strictly valid JSON: numbers that are not finite are null
and named under ``non_finite``, as in the metrics file.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from speedtronic.pure.metrics import Summary, sparkline
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.atomic import write_bytes
from speedtronic.shell.checkpoint import versions
from speedtronic.shell.metrics import MetricLog
from speedtronic.shell.progress import duration
from speedtronic.shell.redact import redact

FILE = "summary.json"
Status = Literal["completed", "interrupted", "failed"]


@attrs.frozen(kw_only=True)
class RunSummary:
    """What is left of a run when only one page may be.

    Counts and seconds cover the whole run, resumed attempts included; the losses are
    those of the logged steps.
    """

    status: Status
    error: str | None  # why it failed, one line
    run: str
    node: str
    device: str
    precision: str
    config_fingerprint: str
    versions: Mapping[str, str]
    attempts: int
    steps: int
    skipped_steps: int
    samples: int
    tokens: int
    wall_seconds: float
    loss: Mapping[str, Any]  # last, min, max, mean, count, non_finite
    validation_loss: Mapping[str, Any]  # the same; min is the best
    average_validation_loss: Mapping[str, Any]  # the same, of the averaged weights
    curve: tuple[tuple[int, float], ...]  # (step, loss), some hundred at most


def summarize(
    log: MetricLog,
    *,
    status: Status,
    steps: int,
    samples: int,
    tokens: int,
    skipped_steps: int,
    wall_seconds: float,
    run: str,
    node: str,
    device: str,
    precision: str,
    config: Mapping[str, Any],
    error: str | None = None,
) -> RunSummary:
    """The summary of a run from its metrics and its last counters.

    Args:
        log: the run's metrics; it may be closed.
        status: how it ended.
        steps: finished steps; the last of them may not have been logged.
        samples: trained on.
        tokens: trained on.
        skipped_steps: steps whose gradient was not finite.
        wall_seconds: time spent in training.
        run: name of the run.
        node: name of this node.
        device: where it ran.
        precision: of its arithmetic.
        config: as plain values.
        error: why it failed.
    """
    return RunSummary(
        status=status,
        error=error,
        run=run,
        node=node,
        device=device,
        precision=precision,
        config_fingerprint=fingerprint(config),
        versions=versions(),
        attempts=log.attempt,
        steps=steps,
        skipped_steps=skipped_steps,
        samples=samples,
        tokens=tokens,
        wall_seconds=wall_seconds,
        loss=_numbers(log.past.loss),
        validation_loss=_numbers(log.past.validation_loss),
        average_validation_loss=_numbers(log.past.average_validation_loss),
        curve=log.past.loss.curve,
    )


def to_plain(summary: RunSummary) -> dict[str, Any]:
    """The summary as JSON has it, for ``summary.json`` and for ``--json``."""
    plain: dict[str, Any] = json.loads(redact(to_json(attrs.asdict(summary))))
    return plain


def write_summary(folder: Path, summary: RunSummary) -> None:
    """Put ``summary.json`` into the run's folder, in place of an older one.

    Raises:
        StorageError: if it cannot be written.
    """
    write_bytes(folder / FILE, _readable(to_plain(summary)))


def read_summary(folder: Path) -> dict[str, Any]:
    """The content of a run's ``summary.json``; empty if there is none to read."""
    try:
        return from_json((folder / FILE).read_bytes())
    except (OSError, ValueError):
        return {}


def closing_lines(summary: RunSummary, width: int = 60) -> list[str]:
    """What the terminal shows at the end of a run: a sentence, and the loss curve."""
    last = summary.loss["last"]
    loss = "no loss logged" if last is None else f"loss {last[1]:.4f}"
    said = (
        f"{summary.status}: {summary.steps} steps, {summary.samples} samples, "
        f"{summary.tokens} tokens in {duration(summary.wall_seconds)}, {loss}"
    )
    best = summary.validation_loss["min"]
    if best is not None:
        said += f", best validation loss {best[1]:.4f} at step {best[0]}"
    best = summary.average_validation_loss["min"]
    if best is not None:
        said += f", {best[1]:.4f} at step {best[0]} averaged"
    if summary.skipped_steps:
        said += f", {summary.skipped_steps} steps skipped"
    if len(summary.curve) < 2:
        return [said]
    return [said, "loss  " + sparkline([y for _, y in summary.curve], width)]


def fingerprint(config: Mapping[str, Any]) -> str:
    """The same 16 characters for the same plain config, in any order.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(_readable(config)).hexdigest()[:16]


def _readable(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False)
    return text.encode("ascii") + b"\n"


def _numbers(summary: Summary) -> dict[str, Any]:
    return {
        "last": summary.last,
        "min": summary.min,
        "max": summary.max,
        "mean": summary.mean,
        "count": summary.count,
        "non_finite": summary.non_finite,
    }
