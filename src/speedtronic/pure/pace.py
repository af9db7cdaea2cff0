"""How long a node works between two rounds, when nodes differ in speed.

Times are arguments: whoever calls has the clock.
"""

import math
from collections.abc import Mapping


def inner_steps_at(speed: float, fastest: float, inner_steps: int) -> int:
    """Inner steps that a node should take while the fastest takes ``inner_steps``.

    Dynamic local updates, ``floor(v_i / v_max * H)`` (arXiv:2401.09135, section 4),
    but at least 1, so that the slowest node still gives something.

    Args:
        speed: of this node, in steps per second.
        fastest: of the fastest node of the run, in steps per second.
        inner_steps: H, what the fastest takes.

    Raises:
        ValueError: a speed is not a finite number above 0, or H is below 1.

    >>> inner_steps_at(0.5, 2.0, 50)
    12
    """
    for name, value in (("speed", speed), ("fastest", fastest)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value!r}, expected a finite number above 0")
    if inner_steps < 1:
        raise ValueError(f"inner_steps is {inner_steps!r}, expected at least 1")
    if speed >= fastest:
        return inner_steps
    return max(1, math.floor(speed * inner_steps / fastest))


def steps_by_progress(
    before: Mapping[str, int], after: Mapping[str, int], stream: str, inner_steps: int
) -> int | None:
    """Inner steps for a node, from how far all nodes came between two rounds.

    No clock is compared with another one: the same time has passed for all of them, so
    the data that was counted meanwhile tells their speeds.

    Args:
        before: data cursors by stream, in the manifest of an earlier round.
        after: the same of a later one.
        stream: the node's own.
        inner_steps: H, what the fastest takes.

    Returns:
        None if the node itself did not come further, or was not there before.

    >>> steps_by_progress({"a": 0, "b": 0}, {"a": 500, "b": 100}, "b", 50)
    10
    """
    ways = {s: after[s] - before[s] for s in before.keys() & after.keys()}
    own = ways.get(stream, 0)
    if own <= 0:
        return None
    return inner_steps_at(float(own), float(max(ways.values())), inner_steps)


def boundary_due(
    steps: int,
    elapsed_s: float,
    *,
    every_steps: int | None = None,
    every_s: float | None = None,
) -> bool:
    """Whether a node should hand in its work now.

    Args:
        steps: inner steps taken since the last boundary.
        elapsed_s: seconds since the last boundary.
        every_steps: the bound of a round in steps, if it has one.
        every_s: the bound of a round in seconds, if it has one; it never cuts a round
            short of one step. With both, the first to be reached counts.

    Raises:
        ValueError: the round has no bound, or one that is not above 0.

    >>> boundary_due(50, 3.0, every_steps=50), boundary_due(0, 9.0, every_s=5.0)
    (True, False)
    """
    bounds = [b for b in (every_steps, every_s) if b is not None]
    if not bounds or not all(b > 0 for b in bounds):
        raise ValueError(f"bounds are {every_steps=}, {every_s=}, expected one above 0")
    in_steps = every_steps is not None and steps >= every_steps
    in_time = every_s is not None and elapsed_s >= every_s
    return steps > 0 and (in_steps or in_time)
