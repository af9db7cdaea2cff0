"""Training with others: the effects of the round, performed on real files and lanes.

The protocol itself is in `speedtronic.pure.round`, its arithmetic in
`speedtronic.pure.aggregate` and `speedtronic.pure.outer`. Here are files, threads and
clocks: `files` (what a run stores on a lane), `look` (one revision, read and checked),
`leader` and `follower` (the effects of the two machines), `coordinator` (the threads
between them and the training), `replay` and `status` (readers of a run).
"""
