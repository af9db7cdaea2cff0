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
_HUB = "hub:"
_CHECKPOINTS = 0.25  # of a node's commits, where its checkpoints go to the Hub, too


def lane_name(section: Distributed) -> str | None:
    """The lane that a config names, in either way.

    >>> lane_name(Distributed(repo_id="lab/run")), lane_name(Distributed())
    ('hub:lab/run', None)
    """
    short = None if section.repo_id is None else f"hub:{section.repo_id}"
    return section.lane or short


def on_hub(lane: str | None) -> bool:
    """Whether each look at a lane is a request over the internet.

    >>> on_hub("hub:lab/run"), on_hub("dir:/mnt/lane"), on_hub(None)
    (True, False, False)
    """
    return lane is not None and lane.startswith(_HUB)


def open_lane(config: Config, stop: threading.Event, *, member: bool) -> Lane:
    """Open a node's lane. Nothing is asked of the Hub.

    Only a master makes a folder, and only in one that is there: a disk that is not
    mounted must not look like a new run.

    Args:
        config: of the node.
        stop: ends every wait of the lane when it is set.
        member: the node belongs to a run already, so the lane is there or away.

    Raises:
        ConfigError: no such lane.
        LaneError: it cannot be opened.
    """
    section = config.distributed
    text = lane_name(section) or ""
    if on_hub(text):
        return parse_lane(text, hub=hub_options(config, stop))
    return make_lane(text) if begins(section, member) else parse_lane(text)


def begins(section: Distributed, member: bool) -> bool:
    """Whether a node begins the run where a lane has none."""
    return section.role == "master" and not member


def make_lane(text: str) -> Lane:
    """Open a lane, and make its folder in one that is there.

    Raises:
        ConfigError: no such lane.
        LaneError: it cannot be made.
    """
    parent = Path(text.removeprefix("dir:")).expanduser().absolute().parent
    if text.startswith("dir:") and not parent.is_dir():
        raise Unavailable(
            f"lane {text}: {parent} is not there; mount its disk or make it"
        )
    return parse_lane(text, create=True)


def look_over(config: Config, stop: threading.Event) -> None:
    """Find out on the Hub whatever would fail for ever; a master makes the repository.

    Token, permission, name, gates, privacy; what is worth knowing is logged.

    Raises:
        ConfigError: it will not do; one line for each reason.
        Unavailable: the Hub does not answer.
    """
    text = lane_name(config.distributed)
    if text is not None and on_hub(text):
        create = config.distributed.role == "master"
        _look_over(text, hub_options(config, stop), create)


def open_checkpoint_lane(
    config: Config, text: str, stop: threading.Event, *, create: bool
) -> Lane:
    """Open a lane for the checkpoints of a run; on the Hub it is looked over first.

    Args:
        config: of the run.
        text: names the lane.
        stop: ends every wait of the lane when it is set.
        create: make its folder or repository if there is none.

    Raises:
        ConfigError: it will not do; one line for each reason.
        LaneError: it cannot be opened, or does not answer.
    """
    if not on_hub(text):
        return parse_lane(text, create=create)
    options = hub_options(config, stop, checkpoints=True)
    lane = parse_lane(text, hub=options)  # its name first
    _look_over(text, options, create)
    return lane


def _look_over(text: str, options: "HubOptions", create: bool) -> None:
    from speedtronic.shell.lanes.hub.preflight import check, refuse

    findings = check(text.removeprefix(_HUB), options, create=create)
    refuse(findings)
    for finding in findings:
        logger.info("%s", finding.text)


def hub_options(
    config: Config, stop: threading.Event, *, checkpoints: bool = False
) -> "HubOptions":
    """What a config says about the Hub.

    Args:
        config: of the node.
        stop: ends every wait of the lane when it is set.
        checkpoints: whether it is for the run's checkpoints, not for its rounds.
    """
    from speedtronic.shell.lanes.hub.limiter import CommitLimiter
    from speedtronic.shell.lanes.hub.options import HubOptions

    section = config.distributed
    return HubOptions(
        token=section.token,
        cache=Path(section.cache_dir),
        allow_public=section.allow_public,
        stop=stop,
        limiter=CommitLimiter(_commits(config, checkpoints)),
    )


def _commits(config: Config, checkpoints: bool) -> float:
    """Commits an hour of a node, for its checkpoints or for its rounds."""
    section = config.distributed
    if not (section.enabled and on_hub(lane_name(section))):
        return section.commits_per_hour
    part = share(section.commits_per_hour, len(section.collaborators) + 1)
    # A leader's rounds are as many commits as a node's deltas.
    part = part if section.role == "worker" else 2 * part
    if not on_hub(config.checkpoint.lane):
        return part
    return max(1.0, part * (_CHECKPOINTS if checkpoints else 1 - _CHECKPOINTS))


def patiently(
    call: Callable[[], T],
    config: Config,
    stop: threading.Event,
    lane: str | None = None,
) -> T:
    """Call until the lane answers; a node may start while the Hub is away.

    A folder that is not there will not come by itself, so it is asked for once.

    Args:
        call: to be answered.
        config: of the node.
        stop: ends the waiting when it is set.
        lane: the one that is called, if it is not that of the rounds.

    Raises:
        LaneError: what the last call raised, after a minute.
    """
    section = config.distributed
    waited_s = 0.0 if on_hub(lane or lane_name(section)) else START_S
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
