"""The lane that a config names, opened with what it says about the Hub."""

import itertools
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from speedtronic.errors import Missing, Unavailable
from speedtronic.pure.budget import share
from speedtronic.pure.config import Config
from speedtronic.pure.config.distributed import Distributed
from speedtronic.pure.round.backoff import delay_s
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.base import Lane

if TYPE_CHECKING:
    from speedtronic.shell.lanes.hub.options import HubOptions

logger = logging.getLogger(__name__)
T = TypeVar("T")
START_S = 60.0  # for a Hub that does not answer when a node starts


def lane_name(section: Distributed) -> str | None:
    """The lane that a config names, in either way.

    >>> lane_name(Distributed(repo_id="lab/run")), lane_name(Distributed())
    ('hub:lab/run', None)
    """
    short = None if section.repo_id is None else f"hub:{section.repo_id}"
    return section.lane or short


def open_lane(config: Config, stop: threading.Event) -> Lane:
    """Open a node's lane; only a master makes a folder. Nothing is asked of the Hub.

    Args:
        config: of the node.
        stop: ends every wait of the lane when it is set.

    Raises:
        ConfigError: no such lane.
        LaneError: it cannot be opened.
    """
    section = config.distributed
    text = lane_name(section) or ""
    if not text.startswith("hub:"):
        return parse_lane(text, create=section.role == "master")
    return parse_lane(text, hub=hub_options(config, stop))


def look_over(config: Config, stop: threading.Event) -> None:
    """Find out on the Hub whatever would fail for ever; a master makes the repository.

    Token, permission, name, gates, privacy; what is worth knowing is logged.

    Raises:
        ConfigError: it will not do; one line for each reason.
        Unavailable: the Hub does not answer.
    """
    text = lane_name(config.distributed) or ""
    if not text.startswith("hub:"):
        return

    from speedtronic.shell.lanes.hub.preflight import check, refuse

    findings = check(
        text.removeprefix("hub:"),
        hub_options(config, stop),
        create=config.distributed.role == "master",
    )
    refuse(findings)
    for finding in findings:
        logger.info("%s", finding.text)


def hub_options(config: Config, stop: threading.Event) -> "HubOptions":
    """What a config says about the Hub."""
    from speedtronic.shell.lanes.hub.limiter import CommitLimiter
    from speedtronic.shell.lanes.hub.options import HubOptions

    section = config.distributed
    part = share(section.commits_per_hour, len(section.collaborators) + 1)
    return HubOptions(
        token=section.token,
        cache=Path(section.cache_dir),
        allow_public=section.allow_public,
        stop=stop,
        # A leader's rounds are as many commits as a node's deltas.
        limiter=CommitLimiter(part if section.role == "worker" else 2 * part),
    )


def patiently(call: Callable[[], T], config: Config, stop: threading.Event) -> T:
    """Call until the lane answers; a node may start while the Hub is away.

    A folder that is not there will not come by itself, so it is asked for once.

    Raises:
        LaneError: what the last call raised, after a minute.
    """
    section = config.distributed
    hub = (lane_name(section) or "").startswith("hub:")
    waited_s = 0.0 if hub else START_S
    for attempt in itertools.count():
        try:
            return call()
        except (Unavailable, Missing) as error:
            if waited_s >= START_S:
                raise
            if not attempt:
                logger.warning("%s; trying again for %.0f s", error, START_S)
            pause_s = delay_s(
                section.retry_initial, section.retry_max, attempt, "start"
            )
            waited_s += pause_s
            stop.wait(pause_s)
    raise AssertionError  # the count has no end
