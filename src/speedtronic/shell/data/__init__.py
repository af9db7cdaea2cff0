"""Sources to token stores to batches at a position."""

from speedtronic.shell.data.pipeline import Data, open_data
from speedtronic.shell.data.prefetch import Prefetcher
from speedtronic.shell.data.stream import Batch, StepBatch

__all__ = ["Batch", "Data", "Prefetcher", "StepBatch", "open_data"]
