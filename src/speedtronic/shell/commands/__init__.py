"""The commands: one module each, with ``Options`` and ``run(options) -> int``.

A module imports what it needs inside ``run``, so that ``--help`` waits for nothing.
"""

COMMANDS = {  # name -> what it does; the module's name has _ for a space
    "train": "train a model from a config",
    "swarm": "train on several nodes on this machine",
    "join": "take part in a run on another machine, by its lane alone",
    "plan": "say what a run on several machines will take",
    "validate": "check a config and print it in full",
    "init": "write a commented starter config",
    "doctor": "say what this machine can do, and how to mend what it cannot",
    "generate": "continue a text with a trained model",
    "export": "write a trained model for transformers",
    "prepare": "turn text into token stores, ahead of training",
    "status": "say how a run on a lane stands",
    "replay": "compute the rounds of a run again and compare every bit",
    "key new": "make the key that a node signs its work with",
    "key show": "say the public half of a node's key",
    "roster show": "say who may take part in a run",
    "roster add": "let a node take part in a run, or change its key, role or limit",
    "roster remove": "let a node take part no more",
    "data stats": "count what a config's data holds",
    "testing hub": "serve a Hub on this machine, to try a run without the network",
}
