"""Whether a run on the Hub fits into the commits that its repository allows.

That follows from how long a step takes. A run that has been here before tells it, or
somebody who measured it; where nobody knows, the answer is the time that would do.
"""

import attrs

from speedtronic.pure.budget import (
    Budget,
    Rhythm,
    least_round_s,
    load,
    most_nodes,
    problems,
)
from speedtronic.pure.config import Config
from speedtronic.shell.distributed.lane import lane_name, on_hub
from speedtronic.shell.distributed.node import lease_s, poll_s
from speedtronic.shell.measure import known_step_s


@attrs.frozen(kw_only=True)
class CommitAdvice:
    """What is known of it."""

    fits: bool | None  # None where it depends on what is not known
    told: str
    remedy: str = ""

    def __str__(self) -> str:
        rest = f"; {self.remedy}" if self.remedy else ""
        return f"distributed.lane: {self.told}{rest}"


def commit_advice(config: Config, step_s: float | None = None) -> CommitAdvice | None:
    """Look at a config; None if its run does not live on the Hub.

    Args:
        config: of a node; without the names of all others the answer is how many fit.
        step_s: seconds of an inner step, if they are known better than from the
            metrics of the run.
    """
    section = config.distributed
    if not section.enabled or not on_hub(lane_name(section)):
        return None
    source = "given"
    if step_s is None:
        step_s, source = known_step_s(config), "by the metrics of the run"
    budget = Budget(commits=section.commits_per_hour)
    nodes = max(2, len(section.collaborators) + 1)  # at least two, or why a lane
    if step_s is None:
        return _unmeasured(config, budget, nodes)
    rhythm = Rhythm(
        nodes=nodes,
        inner_steps=section.inner_steps,
        step_s=step_s,
        poll_s=poll_s(section),
        ttl_s=lease_s(section),
    )
    step = f"a step takes {step_s:.3g} s ({source})"
    if told := problems(budget, rhythm):
        return CommitAdvice(fits=False, told=f"{step}: {told[0]}")
    allowed = f"{budget.commits:.0f} commits an hour"
    if not section.collaborators:
        most = most_nodes(budget, rhythm)
        return CommitAdvice(fits=True, told=f"{step}: {allowed} do for {most} nodes")
    asked = load(rhythm).commits
    return CommitAdvice(
        fits=True, told=f"{step}: {nodes} nodes make {asked:.0f} of {allowed}"
    )


def _unmeasured(config: Config, budget: Budget, nodes: int) -> CommitAdvice:
    """What a step would have to take, for the nodes of the run or for a few numbers."""
    section, lease = config.distributed, lease_s(config.distributed)
    counts = (nodes,) if section.collaborators else (2, 8)
    told = []
    for count in counts:
        least_s = least_round_s(budget, count, lease)
        if least_s is None:
            return CommitAdvice(
                fits=False,
                told=f"a lease of {lease:.0f} s is renewed so often that {count} nodes "
                f"do not fit {budget.commits:.0f} commits an hour",
                remedy="make distributed.lease longer",
            )
        told.append(f"{count} nodes at {least_s / section.inner_steps:.3g} s a step")
    return CommitAdvice(
        fits=None,
        told=f"{budget.commits:.0f} commits an hour are enough for "
        f"{' and '.join(told)} or slower; how long a step takes is not measured here",
        remedy="speedtronic plan measures it, --step-seconds tells it",
    )
