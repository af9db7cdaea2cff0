"""Records of steps that never were, for testing a hook without training."""

from typing import Any

from speedtronic.pure.metrics import StepRecord


def example_record(step: int, **changes: Any) -> StepRecord:
    """A plausible record of ``step``; ``changes`` replace its fields.

    >>> example_record(4).loss, example_record(4, loss=float("inf")).loss
    (2.5, inf)
    """
    fields = {
        "step": step,
        "attempt": 1,
        "time": 1.0e9 + step,
        "wall_seconds": 0.5 * step,
        "learning_rate": 1e-3,
        "loss": 10.0 / step,
        "gradient_norm": 0.8125,
        "samples": 8 * step,
        "tokens": 1024 * step,
        "tokens_per_second": 2048.0,
        "data_seconds": 0.125,
        "compute_seconds": 0.375,
        "evaluation_seconds": 0.0,
        "checkpoint_seconds": 0.0,
        "round_seconds": 0.0,
        "compile_seconds": 0.0,
        "memory_bytes": 2**28,
        "skipped_steps": 0,
    }
    return StepRecord(**(fields | changes))
