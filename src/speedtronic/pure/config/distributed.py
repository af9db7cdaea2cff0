"""Distributed section: the round, its lane and this node's part in it."""

import re

import attrs

from speedtronic.pure import rules
from speedtronic.pure.config.base import (
    Secret,
    below_one,
    each,
    field,
    not_negative,
    one_of,
    positive,
)
from speedtronic.pure.round.names import KEY, NODE_MEANING, check_node

ROLES = ("single", "master", "worker", "auto")


def node_name(value: str) -> str | None:
    """A name that can be part of one on a lane."""
    try:
        check_node(value)
    except ValueError:
        return NODE_MEANING
    return None


def public_key(value: str) -> str | None:
    """An Ed25519 public key as text."""
    found = re.fullmatch(KEY, value, re.ASCII)
    return None if found else "64 lower-case hex digits"


def above_one(value: float) -> str | None:
    """A factor that leaves room."""
    return None if value > 1 else "a number above 1"


def at_least_one(value: float) -> str | None:
    """A multiple that makes nothing smaller."""
    return None if value >= 1 else "a number >= 1"


@attrs.frozen(kw_only=True)
class Distributed:
    """Training one model on several nodes through a lane."""

    enabled: bool = field(False, "train together with other nodes", scope="node")
    mode: str = field(
        "dumb_diloco",
        "dumb_diloco, or single (never with others)",
        check=one_of("dumb_diloco", "single"),
    )
    role: str = field(
        "single",
        "worker, auto (may lead) or master (may lead and begins the run)",
        scope="node",
        check=one_of(*ROLES),
    )
    lane: str | None = field(
        None, "where nodes meet: dir:PATH or hub:OWNER/NAME", scope="node"
    )
    node_id: str | None = field(
        None, "name of this node", scope="node", check=node_name
    )
    collaborators: tuple[str, ...] = field(
        (), "names of the other nodes", scope="node", check=each(node_name)
    )
    inner_steps: int = field(
        500, "steps between two deltas of this node", scope="node", check=positive
    )
    inner_seconds: float | None = field(
        None,
        "cut a delta after so many seconds, if that comes first",
        scope="node",
        check=positive,
    )
    dynamic_steps: bool = field(
        False,
        "take fewer steps than inner_steps, as this node is slower than the fastest",
        scope="node",
    )
    wait: float = field(
        0.0,
        "seconds to pause for the decision on each delta",
        scope="node",
        check=not_negative,
    )
    carry: bool = field(
        True, "keep work that is not counted yet on top of a newer global", scope="node"
    )
    poll_interval: float | None = field(
        None,
        "seconds between looks at the lane (default: 60 on the Hub, else 0.5)",
        scope="node",
        check=positive,
    )
    outer_lr: float = field(0.7, "learning rate of the outer step", check=positive)
    outer_momentum: float = field(0.9, "momentum of the outer step", check=below_one)
    nesterov: bool = field(True, "Nesterov momentum; false is the heavy ball")
    aggregate: str = field(
        "mean",
        "how deltas become one: " + ", ".join(rules.NAMES),
        check=one_of(*rules.NAMES),
    )
    aggregate_faulty: int = field(
        1,
        "deltas of a round that trimmed_mean and multi_krum expect to be wrong",
        check=not_negative,
    )
    aggregate_clip: float = field(
        1.0,
        "median lengths from which norm_clip and centered_clip shorten deltas",
        check=positive,
    )
    aggregate_cap: float = field(
        2.0,
        "times the median tokens that a delta may weigh in token_mean",
        check=at_least_one,
    )
    staleness_discount: bool = field(False, "weigh deltas of older bases less")
    buffers: str = field(
        "average",
        "average buffers such as running statistics, or keep them local",
        check=one_of("average", "local"),
    )
    staleness: int = field(
        8, "rounds that the base of a delta may lie back", check=positive
    )
    window: int = field(64, "rounds for which a decision is remembered", check=positive)
    per_round: int = field(16, "deltas that one round takes", check=positive)
    trust: str | None = field(
        None,
        "open (whoever can write takes part) or signed (by the keys of a roster);"
        " default: signed on the Hub, else open",
        scope="node",
        check=one_of("open", "signed"),
    )
    key: str | None = field(
        None, "file of this node's key (default: in ~/.speedtronic/keys)", scope="node"
    )
    owner: str | None = field(
        None,
        "public key of the run's owner; no other run is believed",
        scope="node",
        check=public_key,
    )
    max_norm: float | None = field(
        None, "a delta with a larger norm is refused", check=positive
    )
    max_norm_ratio: float | None = field(
        None,
        "a delta so many times larger than the median is refused",
        check=above_one,
    )
    strikes: int = field(
        3,
        "deltas of a node refused or clipped in a row that set it aside (0: never)",
        check=not_negative,
    )
    quarantine: int = field(8, "rounds for which a node is set aside", check=positive)
    guard: float | None = field(
        None,
        "when leading, refuse deltas that raise the held-out loss by more than this"
        " share (0.05 is 5 %)",
        scope="node",
        check=positive,
    )
    guard_batches: int = field(
        8, "held-out batches by which the guard judges", scope="node", check=positive
    )
    quorum: int = field(
        1, "deltas that a leader's round needs", scope="node", check=positive
    )
    grace: float = field(
        30.0,
        "seconds that a leader waits for more deltas than the quorum",
        scope="node",
        check=not_negative,
    )
    lease: float | None = field(
        None,
        "seconds without news after which another node leads"
        " (default: 600 on the Hub, else 60)",
        scope="node",
        check=positive,
    )
    keep_rounds: int | str = field(
        10,
        "rounds kept for replay: a number, or all",
        scope="node",
        check=lambda v: (
            None
            if v == "all" or (type(v) is int and v >= 0)
            else "all or a number of at least 0"
        ),
    )
    squash_rounds: int | None = field(
        200,
        "rounds after which the leader squashes the history on the Hub (null: never)",
        scope="node",
        check=positive,
    )
    repo_id: str | None = field(
        None, "OWNER/NAME, short for lane: hub:OWNER/NAME", scope="node"
    )
    allow_public: bool = field(
        False, "let the run's repository be public", scope="node"
    )
    commits_per_hour: float = field(
        128.0,
        "commits that the Hub allows all nodes together in an hour",
        scope="node",
        check=positive,
    )
    token: Secret | None = field(
        None, "better left to the environment (HF_TOKEN)", scope="node"
    )
    cache_dir: str = field(".speedtronic/hub", "cache of the lane", scope="node")
    state_dir: str = field(".speedtronic/diloco", "state of this node", scope="node")
    retry_initial: float = field(
        1.0, "first wait after a failure, seconds", scope="node", check=positive
    )
    retry_max: float = field(
        60.0, "longest wait, seconds", scope="node", check=positive
    )
    retry_attempts: int = field(
        6, "attempts before an operation is given up", scope="node", check=positive
    )
    reset_inner_optimizer: bool = field(
        False, "begin anew with the inner optimizer whenever the base moves"
    )
    async_delta_upload: bool = field(True, "upload behind the training", scope="node")
    delta_upload_queue_size: int = field(
        1, "uploads in flight", scope="node", check=positive
    )
    delta_upload_overflow: str = field(
        "skip",
        "skip or wait when an upload is in flight",
        scope="node",
        check=one_of("skip", "wait", "block", "replace"),
    )
    delta_upload_shutdown_timeout: float = field(
        60.0,
        "seconds to deliver the last delta, and to end leading",
        scope="node",
        check=not_negative,
    )
    async_global_poll: bool = field(True, "poll behind the training", scope="node")
