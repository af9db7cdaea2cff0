"""The round as a protocol without I/O: state machines, and the values they exchange.

Read in this order: `names` (what lies where), `header` (a delta's), `manifest` (the
root of a run), `chain` (which manifest may follow which), `ledger` and `admit` (what
counts), `record` and `settle` (one's own work, and what a newer manifest says of it),
`events`, then the two machines `worker` and `master` and the files they are made of.

Vectors of the model's size never enter here. An effect names what to compute with
them, and whoever performs effects holds them: tensors in a run, integers in the
simulator that checks this code.
"""
