"""The lane that a config names, opened with what it says about the Hub."""

import logging
import threading
from pathlib import Path

from speedtronic.pure.budget import share
from speedtronic.pure.config import Config
from speedtronic.pure.config.distributed import Distributed
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.base import Lane

logger = logging.getLogger(__name__)


def lane_name(section: Distributed) -> str | None:
    """The lane that a config names, in either way.

    >>> lane_name(Distributed(repo_id="lab/run")), lane_name(Distributed())
    ('hub:lab/run', None)
    """
    short = None if section.repo_id is None else f"hub:{section.repo_id}"
    return section.lane or short


def open_lane(config: Config, stop: threading.Event | None = None) -> Lane:
    """Open a node's lane; only a master makes a folder or a repository.

    On the Hub everything that would fail for ever is found out now: token, permission,
    name, privacy.

    Args:
        config: of the node.
        stop: ends every wait of the lane when it is set.

    Raises:
        ConfigError: no such lane, or it will not do; one line for each reason.
        LaneError: it cannot be opened.
    """
    section = config.distributed
    text = lane_name(section) or ""
    creates = section.role == "master"
    kind, _, repository = text.partition(":")
    if kind != "hub":
        return parse_lane(text, create=creates)

    from speedtronic.shell.lanes.hub.limiter import CommitLimiter
    from speedtronic.shell.lanes.hub.options import HubOptions
    from speedtronic.shell.lanes.hub.preflight import check, refuse

    part = share(section.commits_per_hour, len(section.collaborators) + 1)
    options = HubOptions(
        token=section.token,
        cache=Path(section.cache_dir),
        allow_public=section.allow_public,
        stop=stop or threading.Event(),
        # A leader's rounds are as many commits as a node's deltas.
        limiter=CommitLimiter(part if section.role == "worker" else 2 * part),
    )
    lane = parse_lane(text, hub=options)  # its name first
    findings = check(repository, options, create=creates)
    refuse(findings)
    for finding in findings:
        logger.info("%s", finding.text)
    return lane
