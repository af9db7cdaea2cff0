"""Sources to token stores to batches at a position."""
