"""What a training loop asks of its data."""

from collections.abc import Iterator
from typing import Any, Protocol

import attrs

from speedtronic.shell.data.collate import Batch
from speedtronic.shell.data.tokenizers import Tokenizer


@attrs.frozen
class StepBatch:
    """What one rank reads in one step; the counts are Python integers."""

    micro_batches: tuple[Batch, ...]
    samples: int  # rows
    tokens: int  # targets that count for the loss


class Data(Protocol):
    """Batches to train on and to validate with."""

    fingerprint: str  # a hash of what it holds
    tokenizer: Tokenizer | None
    vocab_size: int | None  # token ids are below it
    exact: bool  # whether a step's batch is a function of its number
    inexact_because: str | None
    notes: tuple[str, ...]  # what the user should be told once
    has_validation: bool
    threaded: bool  # whether a background thread may read it

    def train_batch(self, step: int) -> StepBatch:
        """The micro-batches of this rank in a step."""
        ...

    def steps(self, first: int) -> Iterator[StepBatch]:
        """The steps from ``first`` on, without end."""
        ...

    def validation_batches(self, batch_size: int) -> Iterator[Batch]:
        """What is held out, in order, each target once; the last batch may be short."""
        ...

    def bytes_per_token(self) -> float | None:
        """Mean bytes of text per validation target, for bits per byte."""
        ...

    def state_dict(self, step: int) -> dict[str, Any]:
        """The position at the start of ``step``, as JSON values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a position."""
        ...

    def close(self) -> None:
        """Release files and processes."""
        ...
