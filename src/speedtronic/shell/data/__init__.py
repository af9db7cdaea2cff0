"""Sources to token stores to batches at a position."""

from speedtronic.shell.data.base import Data, StepBatch
from speedtronic.shell.data.collate import Batch
from speedtronic.shell.data.pipeline import open_data
from speedtronic.shell.data.prefetch import Prefetcher

__all__ = ["Batch", "Data", "Prefetcher", "StepBatch", "open_data"]
