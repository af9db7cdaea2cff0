"""``speedtronic plan``: what a run on several nodes will take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speedtronic.shell.options import flag, option, repeated

if TYPE_CHECKING:
    from speedtronic.pure.plan import Fleet, Plan
    from speedtronic.shell.measure import Measured


@dataclass(frozen=True)
class Options:
    """What ``plan`` understands."""

    config: str = option("the config file", metavar="PATH")
    nodes: int = option(
        "how many nodes train, this machine's like", metavar="N", kind=int
    )
    price: float | None = option(
        "what a node costs in an hour", default=None, metavar="PER_HOUR", kind=float
    )
    bandwidth: float | None = option(
        "of each node's link in Mbit/s (default: as the run on the lane is fetched)",
        default=None,
        metavar="MBIT",
        kind=float,
    )
    set: Sequence[str] = repeated(
        "replace a field of the config", name="--set", metavar="FIELD=VALUE"
    )
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


ASSUMED_MBIT = 100.0


_SOME_REPOSITORY = "hub:owner/name"


def run(options: Options) -> int:
    """Take a few steps, and say what follows from them.

    Raises:
        SpeedtronicError: what keeps the config from being trained.
    """
    import attrs

    from speedtronic.pure.plan import Fleet, plan
    from speedtronic.shell.config import load_config
    from speedtronic.shell.console import answer, note, preparation, say

    _check(options)
    config = load_config(options.config, options.set)

    from speedtronic.pure.budget import Budget
    from speedtronic.shell.distributed.lane import lane_name, on_hub
    from speedtronic.shell.distributed.node import lease_s, poll_s
    from speedtronic.shell.measure import measure

    with preparation(not options.json) as progress:
        measured = measure(config, progress=progress)
    section, machine = config.distributed, measured.machine
    mbit, source = _bandwidth(options.bandwidth, lane_name(section))
    if lane_name(section) is None:
        note("distributed.lane: none is named, so the limits of the Hub are assumed")
        section = attrs.evolve(section, lane=_SOME_REPOSITORY)
    steps = config.run.max_steps
    if config.run.max_minutes is not None:
        steps = max(1, round(60 * config.run.max_minutes / machine.step_s))
    fleet = Fleet(
        nodes=options.nodes,
        steps=steps,
        inner_steps=section.inner_steps,
        bits_per_s=mbit * 1e6,
        wait_s=section.wait,
        poll_s=poll_s(section),
        ttl_s=lease_s(section),
        price_per_hour=options.price,
        budget=(
            Budget(commits=section.commits_per_hour)
            if on_hub(lane_name(section))
            else None
        ),
    )
    found = plan(machine, fleet)
    advice = list(advised(found, fleet, section.staleness))
    if options.json:
        answer(
            {
                "ok": True,
                "measured": attrs.asdict(measured),
                "fleet": attrs.asdict(fleet),
                "bandwidth": source,
                "plan": attrs.asdict(found),
                "advice": advice,
            }
        )
        return 0
    for title, text in table(measured, fleet, found, f"{mbit:g} Mbit/s, {source}"):
        say(f"{title:<12}{text}")
    for line in advice:
        note(f"advice: {line}")
    return 0


def table(
    measured: "Measured", fleet: "Fleet", found: "Plan", link: str
) -> Iterator[tuple[str, str]]:
    """Titles and texts."""
    from speedtronic.shell.console import size
    from speedtronic.shell.progress import compact, duration

    machine = measured.machine
    yield (
        "a step",
        f"{machine.step_s:.3g} s for {machine.tokens:,} tokens on {measured.device}, "
        f"{measured.precision} (median of {measured.steps})",
    )
    yield "memory", size(machine.memory_bytes)
    yield (
        "the run",
        f"{fleet.nodes} nodes, {fleet.steps:,} steps each, {found.rounds:,} rounds of "
        f"{duration(found.round_s)}, {compact(found.tokens)} tokens",
    )
    yield "to the end", f"{duration(3600 * found.hours)}"
    yield "a link", link
    yield (
        "a delta",
        f"{size(machine.delta_bytes)}, sent in {found.upload_s:.3g} s, in the global "
        f"of every node after {duration(found.answer_s)}",
    )
    for title, traffic, share in (
        ("a worker", found.worker, found.worker_link),
        ("the leader", found.leader, found.leader_link),
    ):
        up, down = size(round(traffic.up)), size(round(traffic.down))
        yield title, f"{up} up, {down} down an hour; its link is busy {share:.1%}"
    rationed = f" of {fleet.budget.commits:.0f}" if fleet.budget else ""
    yield "commits", f"{found.commits:.0f}{rationed} an hour"
    yield "lost", f"{found.lost_share:.1%} of the time, waiting for the lane"
    if found.money is not None:
        yield "money", f"{found.money:,.2f}"


def advised(found: "Plan", fleet: "Fleet", staleness: int) -> Iterator[str]:
    """What should be set otherwise."""
    least = found.least_inner_steps
    if least is None:
        yield (
            "distributed.lease: renewing it takes all commits that the repository "
            f"allows; make it longer than {fleet.ttl_s:.0f} s"
        )
    elif least > fleet.inner_steps:
        yield (
            f"distributed.inner_steps: {fleet.inner_steps} deltas come too often for "
            f"the links or the lane; {rounded_up(least)} or more would do"
        )
    else:
        yield (
            f"distributed.inner_steps: {fleet.inner_steps} will do, and so would "
            f"{rounded_up(least)}"
        )
    if found.least_staleness > staleness:
        yield (
            f"distributed.staleness: {staleness} is too little for uploads of "
            f"{found.upload_s:.0f} s; {found.least_staleness} or more would do"
        )


def rounded_up(number: int) -> int:
    """To two digits, upwards.

    >>> rounded_up(7), rounded_up(262), rounded_up(1201)
    (7, 270, 1300)
    """
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit


def _check(options: Options) -> None:
    import math

    from speedtronic.errors import ConfigError

    told = []
    if options.nodes < 1:
        told.append(f"--nodes: expected at least 1, found {options.nodes}")
    if options.price is not None and not 0 <= options.price < math.inf:
        told.append(f"--price: expected a number from 0 on, found {options.price}")
    if options.bandwidth is not None and not 0 < options.bandwidth < math.inf:
        told.append(
            f"--bandwidth: expected a number above 0, found {options.bandwidth}"
        )
    if told:
        raise ConfigError(told)


def _bandwidth(given: float | None, place: str | None) -> tuple[float, str]:
    """Mbit/s, and where the number comes from."""
    from speedtronic.shell.measure import measured_bits_per_s

    if given is not None:
        return given, "as given"
    bits_per_s = None if place is None else measured_bits_per_s(place)
    if bits_per_s is None:
        return ASSUMED_MBIT, "assumed: nothing on the lane to measure it by"
    return round(bits_per_s / 1e6, 1), f"as the model was fetched from {place}"
