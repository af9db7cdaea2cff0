"""Put the data of a run on its lane, before the run begins there.

Sent are token stores, so that whoever joins needs no copy of the text. What cannot
travel, or is not to be shared, is named all the same.
"""

import logging
import time

from speedtronic.errors import Unavailable
from speedtronic.pure.config import Config
from speedtronic.pure.round.backoff import delay_s
from speedtronic.pure.round.run_file import StoreAt
from speedtronic.shell.console import tenths
from speedtronic.shell.data.sharing import described, stores_by_field
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.travel import push_store
from speedtronic.shell.lanes.counted import CountedLane
from speedtronic.shell.paths import token_folder

logger = logging.getLogger(__name__)


def share_data(config: Config, lane: CountedLane, node: str) -> tuple[StoreAt, ...]:
    """Send the token stores of a config that are not on the lane yet.

    Args:
        config: of the run, whose data was opened before.
        lane: of the run.
        node: its name, which makes its waits differ from those of others.

    Returns:
        Where a config that reads them from a lane names them.

    Raises:
        LaneError: the lane takes nothing any more; what it took is not sent again.
        DataError: the data cannot be read.
    """
    stores = stores_by_field(config, token_folder(config))
    if config.data.share:
        for store in stores.values():
            _push(config, lane, store, node)
    return described(stores)


def _push(config: Config, lane: CountedLane, store: Store, node: str) -> None:
    """Send one store, and bear with a lane that fails now and then."""
    section = config.distributed
    progress = tenths(tell=lambda line: logger.info("to the lane: %s", line))
    failures = 0
    while True:
        before = lane.commits
        try:
            push_store(lane, store, progress)
            return
        except Unavailable as error:
            wait_s = error.retry_after_s  # of a lane that rations its commits
            if wait_s is None:
                failures = failures + 1 if lane.commits == before else 1
                if failures >= section.retry_attempts:
                    raise
                first_s, longest_s = section.retry_initial, section.retry_max
                wait_s = delay_s(first_s, longest_s, failures - 1, node)
            logger.info("%s; again in %.0f s", error, wait_s)
        time.sleep(wait_s)
