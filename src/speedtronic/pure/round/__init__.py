"""The round as a protocol without I/O: state machines, and the values they exchange.

Read in this order: `names` (what lies where), `header` (a delta's), `manifest` (the
root of a run), `chain` (which manifest may follow which), `ledger` and `admit` (what
counts), `settle` (what a newer manifest says of one's own work), `events`, then the
two machines `worker` and `master`.

Vectors of the model's size never enter here. An effect names what to compute with
them, and whoever performs effects holds them: tensors in a run, integers in the
simulator that checks this code.
"""
