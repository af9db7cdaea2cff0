"""Distributed section: the round, its lane and this node's part in it."""

import attrs

from speedtronic.pure.config.base import (
    Secret,
    below_one,
    each,
    field,
    file_name,
    not_negative,
    one_of,
    positive,
)

ROLES = ("single", "master", "worker", "auto")


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
        "single", "single, master, worker or auto", scope="node", check=one_of(*ROLES)
    )
    node_id: str | None = field(
        None, "name of this node", scope="node", check=file_name
    )
    collaborators: tuple[str, ...] = field(
        (), "names of the other nodes", scope="node", check=each(file_name)
    )
    inner_steps: int = field(500, "steps between two rounds", check=positive)
    poll_interval: float = field(
        60.0, "seconds between looks at the lane", scope="node", check=positive
    )
    outer_lr: float = field(0.7, "learning rate of the outer step", check=positive)
    outer_momentum: float = field(0.9, "momentum of the outer step", check=below_one)
    repo_id: str | None = field(None, "OWNER/NAME on the Hub", scope="node")
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
    reset_inner_optimizer: bool = field(True, "fresh moments at adoption")
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
        5.0, "seconds to deliver the last delta", scope="node", check=not_negative
    )
    async_global_poll: bool = field(True, "poll behind the training", scope="node")
