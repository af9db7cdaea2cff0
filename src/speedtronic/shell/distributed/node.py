"""From a config to a node that takes part in a run: lane, machines, coordinator.

A run is refused here, before anything is trained, if its lane cannot be opened or holds
a run that this config does not fit; the lines say which fields differ.
"""

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from torch import Tensor

from speedtronic.errors import ConfigError, LaneError, RunError, Unavailable
from speedtronic.pure.config import Config
from speedtronic.pure.config.distributed import Distributed
from speedtronic.pure.delta import Weights
from speedtronic.pure.inner import InnerState
from speedtronic.pure.outer import OuterRule, init_outer
from speedtronic.pure.round.admit import Bounds
from speedtronic.pure.round.chain import run_id
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.master import (
    Genesis,
    Master,
    MasterSettings,
    start_master,
)
from speedtronic.pure.round.record import Record
from speedtronic.pure.round.roster import founded
from speedtronic.pure.round.rule import RoundRule, to_numbers
from speedtronic.pure.round.run_file import StoreAt
from speedtronic.pure.round.worker import Worker, WorkerSettings, start_worker
from speedtronic.pure.rules import rule_named
from speedtronic.pure.tree import tree_map
from speedtronic.shell.distributed.coordinator import Coordinator, Parts
from speedtronic.shell.distributed.follower import Follower
from speedtronic.shell.distributed.guard import Guard
from speedtronic.shell.distributed.housekeeping import housekeeping
from speedtronic.shell.distributed.identity import (
    disagreements,
    lineage_of,
    node_name,
    recipe,
)
from speedtronic.shell.distributed.lane import (
    begins,
    lane_name,
    look_over,
    on_hub,
    open_lane,
    patiently,
)
from speedtronic.shell.distributed.leader import Leader
from speedtronic.shell.distributed.look import Looker, read_view
from speedtronic.shell.distributed.membership import (
    begins_signed,
    founding_keys,
    keep_up,
    node_key,
    read_membership,
    remember,
    trust_of,
)
from speedtronic.shell.distributed.published import (
    beside,
    published_names,
    read_run_file,
)
from speedtronic.shell.distributed.report import Reporter
from speedtronic.shell.distributed.saved import from_checkpoint
from speedtronic.shell.distributed.share import share_data
from speedtronic.shell.distributed.trust import Trust, signed_roster
from speedtronic.shell.keys import Key
from speedtronic.shell.lanes.counted import CountedLane
from speedtronic.shell.modes import make_folder
from speedtronic.shell.paths import run_folder as folder_of_run
from speedtronic.shell.session import Session

logger = logging.getLogger(__name__)
FOLDER = "transit"  # in the run folder: files on their way


@attrs.frozen(kw_only=True, eq=False)
class Joined:
    """An open lane, and what this node would train on it."""

    node: str
    lane: CountedLane
    recipe: Mapping[str, Any]
    stores: tuple[StoreAt, ...]  # of a run that this node would begin
    trust: Trust
    key: Key | None  # in a signed run, or one that would be
    stop: threading.Event  # ends every wait of the lane

    @property
    def lineage(self) -> str:
        """Of the run that fits this node."""
        return lineage_of(self.recipe)


def join(config: Config, session: Session, fingerprint: str) -> Joined:
    """Open the lane, and compare this node with the run on it.

    Where there is none, the one who begins it sends the data first. A node that belongs
    to a run already goes on with it while the Hub does not answer.

    Raises:
        ConfigError: one line for each field in which the run differs.
        RunError: the lane cannot be opened, fails, or holds something else.
    """
    weights = shared_weights(config, session, session.initial)
    own = recipe(config, fingerprint, weights, session.initial.frozen)
    node = node_name(config)
    known = read_membership(folder_of_run(config))
    member = known is not None
    trust = trust_of(config, known)
    stop = threading.Event()
    stores: tuple[StoreAt, ...] = ()
    try:
        lane = CountedLane(open_lane(config, stop, member=member))
        stores = patiently(
            lambda: _compared(config, lane, own, node, stop, trust), config, stop
        )
    except Unavailable as error:
        if not (member and on_hub(lane_name(config.distributed))):
            raise RunError(f"distributed.lane: {error}") from error
        logger.warning("%s; going on from the newest checkpoint", error)
    except LaneError as error:
        raise RunError(f"distributed.lane: {error}") from error
    key = node_key(config, trust, member=member)
    return Joined(
        node=node, lane=lane, recipe=own, stores=stores, trust=trust, key=key, stop=stop
    )


def _compared(
    config: Config,
    lane: CountedLane,
    own: Mapping[str, Any],
    node: str,
    stop: threading.Event,
    trust: Trust,
) -> tuple[StoreAt, ...]:
    """Refuse a run that differs; send the data where there is none yet."""
    look_over(config, stop)
    head = lane.head()
    if head is not None:
        read_view(lane, head, trust)  # whose run it is
    theirs = None if head is None else read_run_file(lane, head)
    told = [] if theirs is None else disagreements(own, theirs.recipe)
    if told:
        raise ConfigError([f"distributed.lane: {line}" for line in told])
    first = theirs is None and config.distributed.role == "master"
    return share_data(config, lane, node) if first else ()


def shared_weights(config: Config, session: Session, state: InnerState) -> Weights:
    """The part of a state that a run shares; it is not copied."""
    local = config.distributed.buffers == "local"
    return Weights(
        params=state.params,
        buffers={
            name: x
            for name, x in state.buffers.items()
            if not local and name not in session.transient
        },
    )


def start_node(
    config: Config,
    session: Session,
    joined: Joined,
    run_folder: Path,
    saved: tuple[Mapping[str, Any], Mapping[str, Tensor]] | None,
) -> Coordinator:
    """Everything a node needs, ready to be entered.

    Args:
        config: of the node.
        session: what it trains with.
        joined: its lane.
        run_folder: owned by this process.
        saved: values and tensors of the checkpoint that it goes on from.

    Raises:
        CheckpointError, RunError, StorageError: it cannot go on from there.
    """
    shared = shared_weights(config, session, session.initial)
    likes: Weights = tree_map(lambda x: x.to("meta"), shared)
    found = None if saved is None else from_checkpoint(*saved, likes=likes)
    record, progress = found or (None, None)
    membership = read_membership(run_folder)
    known = membership.run if membership else record.run if record else None
    life = secrets.token_hex(8)
    folder = run_folder / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("follower", "leader"):
        make_folder(folder / part)
    joined.trust.learned = lambda run: keep_up(run_folder, run, joined.trust)
    leader = None
    master = None
    if config.distributed.role in ("master", "auto"):
        leader = Leader(
            joined.lane,
            folder / "leader",
            likes,
            published_names(config, likes),
            beside(config, session, joined.recipe, joined.stores),
            joined.key,
            Guard(config) if config.distributed.guard is not None else None,
        )
        master = _master(config, joined, life, leader, shared, known)
    parts = Parts(
        looker=Looker(joined.lane, joined.trust),
        follower=Follower(joined.lane, folder / "follower", likes, joined.key),
        leader=leader,
        remember=lambda run: remember(run_folder, run, joined.trust),
        published=housekeeping(config, joined.lane),
        changed=Reporter(run_folder, joined.lane),
        close=joined.stop.set,
    )
    return Coordinator(
        parts,
        _worker(config, joined, life, record, known),
        master,
        progress,
        dynamic_steps=config.distributed.dynamic_steps,
    )


def _worker(
    config: Config, joined: Joined, life: str, record: Record | None, known: str | None
) -> Worker:
    section = config.distributed
    settings = WorkerSettings(
        node=joined.node,
        life=life,
        lineage=joined.lineage,
        inner_steps=section.inner_steps,
        round_s=section.inner_seconds,
        wait_s=section.wait,
        carry=section.carry,
        begins=begins(section, known is not None),
        key=joined.key.public if joined.key else "",
        reset_optimizer=section.reset_inner_optimizer,
        poll_s=poll_s(section),
        retry_initial_s=section.retry_initial,
        retry_max_s=section.retry_max,
    )
    try:
        return start_worker(settings, time.monotonic(), record)
    except ValueError as error:
        raise RunError(f"distributed: {error}; begin another run folder") from error


def _master(
    config: Config,
    joined: Joined,
    life: str,
    leader: Leader,
    shared: Weights,
    known: str | None,
) -> Master:
    section = config.distributed
    rule = round_rule(section)
    genesis = None
    if begins(section, known is not None):
        copied: Weights = tree_map(lambda x: x.detach().cpu(), shared)
        weights, momentum = leader.make(init_outer(copied, rule.outer))
        roster = None
        if joined.key and begins_signed(config):
            run = run_id(joined.lineage, weights, life, joined.key.public)
            keys = founding_keys(config, joined.node, joined.key)
            try:
                first = founded(run, joined.key.public, keys)
            except ValueError as error:
                raise ConfigError(f"distributed.collaborators: {error}") from None
            roster = signed_roster(first, joined.key)
        genesis = Genesis(weights=weights, momentum=momentum, roster=roster)
    size = sum(
        x.numel() * x.itemsize
        for part in (shared.params, shared.buffers)
        for x in part.values()
    )
    settings = MasterSettings(
        node=joined.node,
        life=life,
        key=joined.key.public if joined.key else "",
        lineage=joined.lineage,
        limits=Limits(
            staleness=section.staleness,
            window=section.window,
            per_round=section.per_round,
            max_norm=section.max_norm or 0.0,
            norm_ratio=section.max_norm_ratio or 0.0,
            strikes=section.strikes,
            aside=section.quarantine,
        ),
        outer=to_numbers(rule),
        bounds=Bounds(payload_bytes=size),
        genesis=genesis,
        quorum=max(section.quorum, rule.least),  # a worker's may be less, and unused
        least=rule.least,
        expected=len(section.collaborators) + 1 if section.collaborators else 0,
        grace_s=section.grace,
        ttl_s=lease_s(section),
        keep_rounds=None if section.keep_rounds == "all" else int(section.keep_rounds),
        poll_s=min(5.0, poll_s(section)),
        retry_initial_s=section.retry_initial,
        retry_max_s=section.retry_max,
    )
    return start_master(settings, time.monotonic(), known)


def round_rule(section: Distributed) -> RoundRule:
    """How the run's leaders aggregate, and the step that they take."""
    outer = OuterRule(
        learning_rate=section.outer_lr,
        momentum=section.outer_momentum,
        nesterov=section.nesterov,
    )
    aggregate = rule_named(section.aggregate)
    assert aggregate is not None  # the config has checked it
    return RoundRule(
        aggregate=aggregate,
        cap=section.aggregate_cap,
        clip=section.aggregate_clip,
        faulty=section.aggregate_faulty,
        discount=section.staleness_discount,
        outer=outer,
    )


def poll_s(section: Distributed) -> float:
    """Seconds between two looks."""
    default = 60.0 if on_hub(lane_name(section)) else 0.5
    return default if section.poll_interval is None else section.poll_interval


def lease_s(section: Distributed) -> float:
    """Seconds without news after which another node leads."""
    default = 600.0 if on_hub(lane_name(section)) else 60.0
    return default if section.lease is None else section.lease
