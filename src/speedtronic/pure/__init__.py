"""Functions of values: no I/O, clock, environment, global randomness or mutation."""
