"""The names of a run on a lane, and the grammar that each must match.

::

    README.md  config.json  model.safetensors      the current global model
    tokenizer.json and others                      what else its readers look for
    tokens/<fingerprint>/                          a token store of its data
    run.json                                       shared config and data recipe
    roster.json                                    a roster that its owner asks for
    manifest.json                                  the root of everything below
    outer.safetensors                              outer momentum and codec state
    nodes/<node>/<stream>-<seq>-<id>.safetensors   a delta, waiting for a decision
    rounds/<round>/manifest.json                   a finished round, kept for replay
    rounds/<round>/<node>/<stream>-<seq>-<id>.safetensors   what it accepted
    rounds/<round>/model.safetensors, outer.safetensors     an anchor for replay

A name that came from outside (a config, the environment, a manifest, a listing) is
believed only after it went through here, so no name can leave the lane's root.
"""

import re
from hashlib import sha256

import attrs

from speedtronic.pure.blobname import name_problem

README = "README.md"
CONFIG = "config.json"
RUN = "run.json"
ROSTER = "roster.json"
MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"
MOMENTUM = "outer.safetensors"
NODES = "nodes/"
ROUNDS = "rounds/"
SUFFIX = ".safetensors"

NODE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?"
NODE_MEANING = "1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first and last"
WORD = r"[0-9a-f]{16}"  # a stream, a life, a run: 64 random bits
KEY = r"[0-9a-f]{64}"  # an Ed25519 public key
HASH = r"[0-9a-f]{64}"
NUMBER = r"0|[1-9][0-9]{0,11}"

_NODE = re.compile(NODE, re.ASCII)
_WORD = re.compile(WORD, re.ASCII)
_DELTA = re.compile(
    rf"nodes/(?P<node>{NODE})/(?P<stream>{WORD})-(?P<seq>{NUMBER})-(?P<id>{HASH})"
    r"\.safetensors",
    re.ASCII,
)
_ROUND = re.compile(rf"rounds/(?P<round>{NUMBER})/.+", re.ASCII)


@attrs.frozen(order=True)
class DeltaName:
    """The name of a delta; its order is the order of aggregation.

    >>> name = DeltaName("node-1", "00000000000000aa", 3, "f" * 64)
    >>> parse_delta(name.path) == name
    True
    """

    node: str
    stream: str
    seq: int
    id: str

    @property
    def path(self) -> str:
        """Where it waits for a decision."""
        return f"{NODES}{self.node}/{self.stream}-{self.seq}-{self.id}{SUFFIX}"

    def kept(self, round: int) -> str:
        """Where it is kept after ``round`` accepted it."""
        return kept(round, self.path.removeprefix(NODES))


def parse_delta(path: str) -> DeltaName:
    """The parts of a delta's name.

    Raises:
        ValueError: anything that is not exactly such a name.

    >>> parse_delta("nodes/../manifest.json")
    Traceback (most recent call last):
    ValueError: 'nodes/../manifest.json': expected
    nodes/<node>/<stream>-<seq>-<id>.safetensors
    """
    found = _DELTA.fullmatch(path)
    if not found or name_problem(path):
        shown = path if len(path) <= 200 else path[:197] + "..."
        raise ValueError(
            f"{shown!r}: expected nodes/<node>/<stream>-<seq>-<id>.safetensors"
        )
    return DeltaName(found["node"], found["stream"], int(found["seq"]), found["id"])


def delta_names(paths: tuple[str, ...]) -> tuple[DeltaName, ...]:
    """The deltas in a listing; whatever else somebody put there is not ours."""
    ours = [p for p in paths if _DELTA.fullmatch(p) and not name_problem(p)]
    return tuple(parse_delta(path) for path in ours)


def kept(round: int, name: str) -> str:
    """The name that belongs to a finished round.

    >>> kept(12, "manifest.json")
    'rounds/12/manifest.json'
    """
    return f"{ROUNDS}{round}/{name}"


def kept_round(path: str) -> int | None:
    """The round that a kept file belongs to, None for any other name.

    >>> kept_round("rounds/12/manifest.json"), kept_round("rounds/x/y")
    (12, None)
    """
    found = _ROUND.fullmatch(path)
    return int(found["round"]) if found else None


def check_node(node: str) -> str:
    """Return a node's name if it may be one.

    Raises:
        ValueError: in words, for a config or an environment variable.

    >>> check_node("gpu-1")
    'gpu-1'
    >>> check_node("a/b")
    Traceback (most recent call last):
    ValueError: node id 'a/b': expected 1 to 64 of A-Z a-z 0-9 . _ -, a letter or
    digit first and last
    """
    if not _NODE.fullmatch(node):
        raise ValueError(f"node id {node!r}: expected {NODE_MEANING}")
    if problem := name_problem(node):
        raise ValueError(f"node id: {problem}")
    return node


def is_node(node: object) -> bool:
    """Whether a node may have this name.

    >>> is_node("gpu-1"), is_node("con"), is_node("../x")
    (True, False, False)
    """
    fits = isinstance(node, str) and _NODE.fullmatch(node) is not None
    return fits and name_problem(node) is None


def check_life(life: str) -> str:
    """Return a life if it is 16 lower-case hex digits, drawn when a process starts."""
    if not _WORD.fullmatch(life):
        raise ValueError(f"life {life!r}: expected 16 lower-case hex digits")
    return life


def derive(life: str, purpose: str, count: int) -> str:
    """Another random word of the same process, so that only its life is ever drawn.

    >>> derive("00000000000000aa", "stream", 0)
    '35c9bccc0c8000d6'
    """
    return sha256(f"{life}/{purpose}/{count}".encode()).hexdigest()[:16]
