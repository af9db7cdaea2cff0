"""What a repository on the Hub allows, and whether a run fits into it: arithmetic only.

The Hub counts commits by the hour (128 for a free account, refused with 429) and
requests in windows of five minutes (1000 to its API, 5000 to files), where all nodes
that share a token share its quota. A round costs one commit of each node and one of
the leader, and a leader that has nothing to publish still renews its lease.

Deliberately absent: bytes and money, clocks, and what an account really has: the Hub
publishes no numbers for paid plans, so they are settings.
"""

import math

import attrs

HOUR_S = 3600.0
WINDOW_S = 300.0
RENEWALS_PER_TTL = 3  # of the lease, see `pure.round.master`
LOOK_REQUESTS = 1  # to the API, when the head moved: its listing
UPLOAD_REQUESTS = 5  # to the API, by the commit of a delta
PUBLISH_REQUESTS = 6  # to the API, by the commit of a round
CHECK_REQUESTS = 2  # to files, by any commit: what the head is, and whose commit it is


@attrs.frozen(kw_only=True)
class Budget:
    """What one account may do."""

    commits: float = 128.0  # in an hour
    api_requests: float = 1000.0  # in five minutes
    file_requests: float = 5000.0  # in five minutes


@attrs.frozen(kw_only=True)
class Rhythm:
    """How often a run turns to its lane."""

    nodes: int  # that train, the leader among them
    inner_steps: int  # between two rounds
    step_s: float  # seconds of one inner step
    poll_s: float = 60.0  # between two looks of a node
    ttl_s: float = 60.0  # of the lease

    @property
    def round_s(self) -> float:
        """Seconds between two boundaries of a node.

        >>> Rhythm(nodes=2, inner_steps=500, step_s=0.5).round_s
        250.0
        """
        return self.inner_steps * self.step_s


@attrs.frozen(kw_only=True)
class Load:
    """What a run asks of its lane."""

    commits: float  # in an hour
    api_requests: float  # in five minutes, of all nodes
    file_requests: float  # in five minutes, of all nodes


def load(rhythm: Rhythm) -> Load:
    """The load of a run that goes well; lost races and retries come on top.

    Raises:
        ValueError: a number is not above 0.

    >>> load(Rhythm(nodes=3, inner_steps=500, step_s=0.72, ttl_s=1080.0)).commits
    40.0
    """
    _check(rhythm)
    rounds = HOUR_S / rhythm.round_s
    commits = rhythm.nodes * rounds + _leading(rhythm)
    windows = HOUR_S / WINDOW_S
    looks = rhythm.nodes * WINDOW_S / rhythm.poll_s
    moved = rhythm.nodes * min(WINDOW_S / rhythm.poll_s, commits / windows)
    uploads = rhythm.nodes * rounds / windows
    return Load(
        commits=commits,
        api_requests=LOOK_REQUESTS * moved
        + UPLOAD_REQUESTS * uploads
        + PUBLISH_REQUESTS * _leading(rhythm) / windows,
        file_requests=looks + moved + CHECK_REQUESTS * commits / windows,
    )


def problems(budget: Budget, rhythm: Rhythm) -> list[str]:
    """Why a run does not fit, one line each with what to change; empty if it fits.

    >>> slow = Rhythm(nodes=8, inner_steps=500, step_s=1.0, ttl_s=600.0)
    >>> problems(Budget(), slow)
    []
    >>> problems(Budget(), Rhythm(nodes=8, inner_steps=100, step_s=1.0, ttl_s=600.0))
    ['8 nodes with a round every 100 s need 324 commits an hour, 128 are allowed:
    raise distributed.inner_steps from 100 to 262 or more, or use fewer nodes']
    """
    told = []
    asked = load(rhythm)
    if asked.commits > budget.commits:
        told.append(_too_many_commits(budget, rhythm, asked))
    if asked.api_requests > budget.api_requests:
        told.append(_too_many_requests("API", budget.api_requests, asked.api_requests))
    if asked.file_requests > budget.file_requests:
        told.append(
            _too_many_requests("file", budget.file_requests, asked.file_requests)
        )
    return told


def least_inner_steps(budget: Budget, rhythm: Rhythm) -> int | None:
    """The fewest inner steps with which a run stays within its commits.

    None if no number of steps would do, because renewing the lease takes all of them.

    >>> rhythm = Rhythm(nodes=8, inner_steps=1, step_s=1.0, ttl_s=600.0)
    >>> least_inner_steps(Budget(), rhythm)
    262
    """
    _check(rhythm)
    least_s = least_round_s(budget, rhythm.nodes, rhythm.ttl_s)
    return None if least_s is None else max(1, math.ceil(least_s / rhythm.step_s))


def least_round_s(budget: Budget, nodes: int, ttl_s: float) -> float | None:
    """The shortest rounds with which a run stays within its commits; None as above.

    >>> round(least_round_s(Budget(), nodes=8, ttl_s=600.0))
    262
    """
    renewal_s = ttl_s / RENEWALS_PER_TTL
    # A round that is shorter than that costs one commit more than there are nodes; in
    # a longer one the leader renews anyway, and only the nodes' commits get fewer.
    least_s = (nodes + 1) * HOUR_S / budget.commits
    if least_s > renewal_s:
        left = budget.commits - HOUR_S / renewal_s
        if left <= 0:
            return None
        least_s = nodes * HOUR_S / left
    return least_s


def most_nodes(budget: Budget, rhythm: Rhythm) -> int:
    """How many nodes of this rhythm stay within the commits; 0 if not even one does.

    >>> most_nodes(Budget(), Rhythm(nodes=1, inner_steps=500, step_s=1.0, ttl_s=600.0))
    15
    """
    _check(rhythm)
    left = budget.commits - _leading(rhythm)
    return max(0, math.floor(left * rhythm.round_s / HOUR_S))


def share(commits: float, nodes: int) -> float:
    """Commits an hour that are one node's part, a leader's round being one part more.

    >>> share(128.0, 15)
    8.0
    """
    if nodes < 1:
        raise ValueError(f"nodes is {nodes!r}, expected at least 1")
    return commits / (nodes + 1)


@attrs.frozen
class Bucket:
    """A budget that fills up again: at most ``per_hour`` in any hour, not all at once.

    An eighth may come at once, the rest is spread evenly.
    """

    per_hour: int
    level: float  # commits that may come now
    at_s: float  # when that was so

    @property
    def burst(self) -> int:
        """Commits that may come at once."""
        return max(1, self.per_hour // 8)

    @property
    def per_s(self) -> float:
        """Commits that are added in a second.

        With a full bucket at its beginning, an hour then holds ``per_hour`` of them.
        """
        return (self.per_hour - self.burst + 1) / HOUR_S


def full(per_hour: float, now_s: float) -> Bucket:
    """A bucket of which nothing is used yet.

    Raises:
        ValueError: fewer than one in an hour.

    >>> full(128.0, 0.0).level
    16.0
    """
    if not per_hour >= 1:
        raise ValueError(f"per_hour is {per_hour!r}, expected at least 1")
    bucket = Bucket(math.floor(per_hour), 0.0, now_s)
    return attrs.evolve(bucket, level=float(bucket.burst))


def taken(bucket: Bucket, now_s: float) -> tuple[Bucket, float]:
    """Take one commit: the bucket after it, and 0; or the same and seconds to wait.

    >>> taken(Bucket(128, 1.0, 0.0), 0.0)[1]
    0.0
    >>> round(taken(Bucket(128, 0.0, 0.0), 0.0)[1])
    32
    """
    passed_s = max(0.0, now_s - bucket.at_s)
    level = min(float(bucket.burst), bucket.level + passed_s * bucket.per_s)
    if level >= 1.0:
        return attrs.evolve(bucket, level=level - 1.0, at_s=now_s), 0.0
    wait_s = (1.0 - level) / bucket.per_s
    return attrs.evolve(bucket, level=level, at_s=now_s), wait_s


def returned(bucket: Bucket) -> Bucket:
    """Put one back that was taken and not used.

    >>> returned(Bucket(128, 3.0, 0.0)).level
    4.0
    """
    return attrs.evolve(bucket, level=min(float(bucket.burst), bucket.level + 1.0))


def _leading(rhythm: Rhythm) -> float:
    """Commits of the leader in an hour: a round, or a renewal, whichever is sooner."""
    return HOUR_S / min(rhythm.round_s, rhythm.ttl_s / RENEWALS_PER_TTL)


def _too_many_commits(budget: Budget, rhythm: Rhythm, asked: Load) -> str:
    who = f"{rhythm.nodes} node{'s' * (rhythm.nodes > 1)}"
    told = (
        f"{who} with a round every {rhythm.round_s:.0f} s need {asked.commits:.0f}"
        f" commits an hour, {budget.commits:.0f} are allowed"
    )
    least = least_inner_steps(budget, rhythm)
    if least is None:
        ttl_s = RENEWALS_PER_TTL * HOUR_S / (budget.commits / 4)
        return (
            f"{told}: renewing a lease of {rhythm.ttl_s:.0f} s takes all of them; make"
            f" it {ttl_s:.0f} s or longer"
        )
    return (
        f"{told}: raise distributed.inner_steps from {rhythm.inner_steps} to {least} or"
        " more, or use fewer nodes"
    )


def _too_many_requests(kind: str, allowed: float, asked: float) -> str:
    return (
        f"the nodes need {asked:.0f} {kind} requests in five minutes, {allowed:.0f} are"
        " allowed for one token: raise distributed.poll_interval, or give nodes tokens"
        " of different users"
    )


def _check(rhythm: Rhythm) -> None:
    for field in attrs.fields(Rhythm):
        value = getattr(rhythm, field.name)
        if not (math.isfinite(value) and value > 0):
            raise ValueError(
                f"{field.name} is {value!r}, expected a finite number above 0"
            )
