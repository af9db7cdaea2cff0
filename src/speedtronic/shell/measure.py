"""A few timed steps on this machine, and the speed of its link to a lane.

Nothing is written but token stores that were missing: no run folder, no checkpoint.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import attrs
import torch

from speedtronic.errors import LaneError
from speedtronic.pure.config import Config
from speedtronic.pure.plan import Machine
from speedtronic.shell.data.prepare import Progress, silent
from speedtronic.shell.device import choose_device
from speedtronic.shell.distributed.fetched import fetch_checked
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.distributed.node import shared_weights
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.shell.meters import memory_bytes
from speedtronic.shell.metrics import recent_records
from speedtronic.shell.opening import open_session
from speedtronic.shell.paths import metrics_file
from speedtronic.shell.reading import read
from speedtronic.shell.stepper import Counters, Stepper

WARM_UP = 2  # steps that compile, tune and allocate
LEAST, MOST = 3, 50  # steps that are timed
ENOUGH_S = 3.0


@attrs.frozen(kw_only=True)
class Measured:
    """What was found, and on what."""

    machine: Machine
    device: str
    precision: str
    steps: int  # that were timed


def measure(
    config: Config,
    *,
    progress: Progress = silent,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Take some steps of a config; the time is the median of single ones.

    Args:
        config: of the run; of nodes that share data the first one's part is taken.
        progress: told how far the preparation of the data is.
        clock: seconds from any origin.

    Raises:
        ConfigError, DataError, DeviceError, ModelError: it could not be trained.
    """
    alone = attrs.evolve(config.distributed, enabled=False)
    single = attrs.evolve(config, distributed=alone)
    device = choose_device(config.run.device)
    with ExitStack() as stack:
        data, session = open_session(stack, single, device, None, progress)
        share = None
        if config.run.max_minutes is not None:
            share = torch.zeros((), device=device)
        stepper = Stepper(session, data, session.initial, Counters())
        stack.callback(stepper.close)
        times: list[float] = []
        while len(times) < WARM_UP + LEAST or (
            sum(times[WARM_UP:]) < ENOUGH_S and len(times) < WARM_UP + MOST
        ):
            batch = stepper.read()
            began = clock()
            read(stepper.state, stepper.step(batch, share))  # waits for the device
            times.append(clock() - began)
        weights = shared_weights(config, session, stepper.state)
        params = sum(x.numel() * x.itemsize for x in weights.params.values())
        buffers = sum(x.numel() * x.itemsize for x in weights.buffers.values())
        tokens = stepper.counters.tokens / stepper.counters.position
        machine = Machine(
            step_s=statistics.median(times[WARM_UP:]),
            tokens=round(tokens),
            memory_bytes=memory_bytes(device),
            delta_bytes=params + buffers,
            global_bytes=params + buffers,
            momentum_bytes=params if config.distributed.outer_momentum else 0,
        )
        return Measured(
            machine=machine,
            device=str(device),
            precision=session.arithmetic.name,
            steps=len(times) - WARM_UP,
        )


def measured_bits_per_s(place: str) -> float | None:
    """How fast the global model of the run on a lane can be fetched.

    None where there is no run, or the lane does not answer.

    Raises:
        ConfigError: the text names no lane.
    """
    with tempfile.TemporaryDirectory(prefix="speedtronic-plan-") as folder:
        own = HubOptions(cache=Path(folder) / "cache")  # one that holds nothing yet
        try:
            lane = parse_lane(place, hub=own)
            view = Looker(lane).look()
            if view.manifest is None or view.revision is None:
                return None
            began = time.perf_counter()
            file = view.manifest.weights
            fetch_checked(lane, file, view.revision, Path(folder) / "global")
        except LaneError:
            return None
        return 8 * file.bytes / (time.perf_counter() - began)


def known_step_s(config: Config) -> float | None:
    """Seconds of a step as the run of this config told them, if it ever ran here."""
    taken = [
        (after.data_seconds + after.compute_seconds) / steps
        for before, after in pairwise(recent_records(metrics_file(config)))
        if (steps := after.step - before.step) > 0 and not after.compile_seconds
    ]
    return statistics.median(taken) if taken else None
