"""What a run with other nodes will take: seconds, bytes, commits, money.

One machine is measured and all are taken to be like it; the link of each is as fast in
both directions. A worker sends a delta and fetches the global model once a round. The
leader does the same, and besides fetches every delta and sends the new model with its
outer momentum. Training goes on meanwhile, so a transfer costs time only where a node
waits for decisions (``distributed.wait``); a link that is busy all the time makes
rounds longer, and deltas stale.

Deliberately absent: what a round is worth. How many inner steps are too many for a
model is found by training it.
"""

import math

import attrs

from speedtronic.pure.budget import (
    HOUR_S,
    Budget,
    Rhythm,
    least_inner_steps,
    load,
)

LINK_SHARE = 0.5  # of the time the leader's link may be busy: the rest is for retries
LOST_SHARE = 0.05  # of the time nodes may wait


@attrs.frozen(kw_only=True)
class Machine:
    """What some steps on one machine showed."""

    step_s: float  # seconds of one inner step
    tokens: int  # trained on in it
    memory_bytes: int
    delta_bytes: int
    global_bytes: int
    momentum_bytes: int


@attrs.frozen(kw_only=True)
class Fleet:
    """How many such machines, and how they are set."""

    nodes: int  # that train, the leader among them
    steps: int  # of each
    inner_steps: int  # between two deltas
    bits_per_s: float  # of each node's link, in each direction
    wait_s: float = 0.0  # at most, for the decision on a delta
    poll_s: float = 60.0
    ttl_s: float = 600.0  # of the lease
    price_per_hour: float | None = None  # of one node
    budget: Budget | None = None  # of the lane; None if nothing is rationed


@attrs.frozen(kw_only=True)
class Traffic:
    """Bytes in an hour."""

    up: float
    down: float


@attrs.frozen(kw_only=True)
class Plan:
    """What comes of it."""

    round_s: float  # between two deltas of a node, its waiting included
    rounds: int
    hours: float  # to the end
    tokens: int  # that all nodes train on
    upload_s: float  # of one delta
    answer_s: float  # from a delta's cut to the global that counts it, on every node
    lost_share: float  # of the time, waiting for decisions
    worker_link: (
        float  # share of the time that its link is busy; above 1 it never rests
    )
    leader_link: float
    worker: Traffic
    leader: Traffic
    commits: float  # in an hour
    least_inner_steps: int | None  # that links and commits allow; None: none do
    least_staleness: int  # rounds
    money: float | None


def plan(machine: Machine, fleet: Fleet) -> Plan:
    """Compute it.

    Raises:
        ValueError: a number is not above 0, or a wait below 0.

    >>> machine = Machine(
    ...     step_s=0.5, tokens=8192, memory_bytes=10**9, delta_bytes=5 * 10**8,
    ...     global_bytes=5 * 10**8, momentum_bytes=5 * 10**8,
    ... )
    >>> fleet = Fleet(nodes=4, steps=10_000, inner_steps=500, bits_per_s=1e8)
    >>> found = plan(machine, fleet)
    >>> found.upload_s, found.rounds, round(found.leader_link, 2)
    (40.0, 20, 1.28)
    """
    _check(machine, fleet)
    delta_s, global_s, momentum_s = (
        8 * size / fleet.bits_per_s
        for size in (machine.delta_bytes, machine.global_bytes, machine.momentum_bytes)
    )
    worker_s = delta_s + global_s
    leading_s = fleet.nodes * delta_s + global_s + momentum_s
    answer_s = worker_s + leading_s + fleet.poll_s
    blocked_s = min(fleet.wait_s, answer_s)
    training_s = fleet.inner_steps * machine.step_s
    round_s = training_s + blocked_s
    rounds = math.ceil(fleet.steps / fleet.inner_steps)
    hours = (fleet.steps * machine.step_s + rounds * blocked_s) / HOUR_S
    hourly = HOUR_S / round_s
    deltas = fleet.nodes * machine.delta_bytes
    published = machine.global_bytes + machine.momentum_bytes
    price = fleet.price_per_hour
    return Plan(
        round_s=round_s,
        rounds=rounds,
        hours=hours,
        tokens=fleet.nodes * fleet.steps * machine.tokens,
        upload_s=delta_s,
        answer_s=answer_s,
        lost_share=blocked_s / round_s,
        worker_link=worker_s / round_s,
        leader_link=(worker_s + leading_s) / round_s,
        worker=Traffic(
            up=hourly * machine.delta_bytes, down=hourly * machine.global_bytes
        ),
        leader=Traffic(
            up=hourly * (machine.delta_bytes + published),
            down=hourly * (machine.global_bytes + deltas),
        ),
        commits=load(rhythm(machine, fleet, round_s)).commits,
        least_inner_steps=_least(machine, fleet, worker_s + leading_s, blocked_s),
        least_staleness=math.ceil(delta_s / round_s) + 1,
        money=None if price is None else fleet.nodes * hours * price,
    )


def rhythm(machine: Machine, fleet: Fleet, round_s: float) -> Rhythm:
    """The same for the budget of a lane."""
    return Rhythm(
        nodes=fleet.nodes,
        inner_steps=fleet.inner_steps,
        step_s=round_s / fleet.inner_steps,
        poll_s=fleet.poll_s,
        ttl_s=fleet.ttl_s,
    )


def _least(
    machine: Machine, fleet: Fleet, leader_s: float, blocked_s: float
) -> int | None:
    """The fewest inner steps for which links rest, nodes train, and commits suffice."""
    seconds = max(leader_s / LINK_SHARE, blocked_s * (1 / LOST_SHARE - 1))
    least = math.ceil(seconds / machine.step_s)
    if fleet.budget is not None:
        by_commits = least_inner_steps(
            fleet.budget, rhythm(machine, fleet, fleet.inner_steps * machine.step_s)
        )
        if by_commits is None:
            return None
        least = max(least, by_commits)
    return max(1, least)


def _check(machine: Machine, fleet: Fleet) -> None:
    told = {
        "step_s": machine.step_s,
        "nodes": fleet.nodes,
        "steps": fleet.steps,
        "inner_steps": fleet.inner_steps,
        "bits_per_s": fleet.bits_per_s,
    }
    for name, value in told.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value!r}, expected a finite number above 0")
    for name, value in (("wait_s", fleet.wait_s), ("price", fleet.price_per_hour or 0)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value!r}, expected a finite number from 0 on")
