"""Tools for testing pure steps: purity checks and hypothesis strategies."""
