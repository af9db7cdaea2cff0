"""What can be said of a run from its lane: who takes part, what waits, what is kept.

There is no clock in the protocol, so "when" is a round and a serial: how many rounds a
node is behind, not how many minutes. Manifests are read and their chain is checked.
Of a model and its momentum nothing is read, of deltas only those that wait, and of
these no more than `MAX_BYTES`, for their headers tell the work that is in them.
"""

import tempfile
from pathlib import Path

import attrs

from speedtronic.errors import Corrupt, Damaged
from speedtronic.pure.round import names
from speedtronic.pure.round.admit import inadmissible
from speedtronic.pure.round.header import Header, disagreement
from speedtronic.pure.round.manifest import Lease, Manifest, Scalar
from speedtronic.pure.round.names import DeltaName
from speedtronic.pure.round.roster import Roster
from speedtronic.shell.delta_file import open_delta
from speedtronic.shell.distributed.files import read_header
from speedtronic.shell.distributed.recording import Recording, open_recording, walk
from speedtronic.shell.lanes.base import Lane

MAX_BYTES = 2**28  # of waiting deltas, downloaded for their headers
_ROOT = {
    names.WEIGHTS: "model",
    names.MOMENTUM: "momentum",
    names.MANIFEST: "manifest",
}
_KEPT = {
    names.WEIGHTS: "anchors",
    names.MOMENTUM: "anchors",
    names.MANIFEST: "kept manifests",
}
PARTS = (
    *_ROOT.values(),
    "waiting deltas",
    "kept deltas",
    "kept manifests",
    "anchors",
    "other",
)


@attrs.frozen(kw_only=True)
class NodeStatus:
    """What is known of a node."""

    node: str
    counted_round: int | None  # the last one that a delta of it counted in, if known
    behind: int | None  # rounds since then
    waiting: int  # deltas on the lane that nobody has decided yet
    steps: int  # inner steps in those
    tokens: int
    unread: int  # waiting deltas whose steps and tokens are not in these sums


@attrs.frozen(kw_only=True)
class Status:
    """What is known of a run."""

    revision: str
    run: str
    lineage: str
    round: int
    serial: int
    counted: int  # deltas in the newest round
    lease: Lease
    roster: Roster | None  # None: the run is open
    outer: tuple[tuple[str, Scalar], ...]  # numbers of the outer step, by name
    nodes: tuple[NodeStatus, ...]  # by name
    notes: tuple[str, ...]  # refusals, and deltas that cannot count
    sizes: dict[str, int]  # bytes by part of the lane, in the order of `PARTS`
    anchors: tuple[int, ...]  # kept rounds that a replay can begin at
    replayable: tuple[tuple[int, int], ...]  # rounds that a replay can compute
    checked: int  # kept manifests
    problems: tuple[str, ...]  # of the kept manifests; empty if their chain verifies


def status(lane: Lane, work: Path | None = None, owner: str | None = None) -> Status:
    """Look at a run.

    Args:
        lane: of the run.
        work: a folder for temporary files, the system's by default.
        owner: public key of the run's owner; None believes the newest manifest.

    Raises:
        ConfigError: there is no run.
        Corrupt: the newest manifest is not one.
        LaneError: the lane does not answer, or has dropped the revision.
        StorageError: a temporary file cannot be written.

    >>> from speedtronic.shell.lanes import parse_lane
    >>> from speedtronic.testing.runs import recorded_run
    >>> lane = parse_lane("memory:")
    >>> _ = recorded_run(lane, rounds=3, waiting=1)
    >>> found = status(lane)
    >>> found.round, found.replayable, found.problems
    (3, ((1, 3),), ())
    >>> sum(node.waiting for node in found.nodes)
    1
    """
    recording = open_recording(lane, owner)
    head = recording.head
    counted = {
        register.node: register.round
        for register in sorted(head.ledger, key=lambda register: register.round)
        if register.verdict == "accepted"
    }
    problems, checked = [], 0
    for link in walk(recording, head.round):
        if link.problem:
            problems.append(f"round {link.round}: {link.problem}")
        if link.manifest and not link.problem:
            checked += 1
            for name in link.manifest.accepted:
                counted[name.node] = max(link.round, counted.get(name.node, 0))
    waiting = names.delta_names(tuple(recording.sizes))
    with tempfile.TemporaryDirectory(prefix="speedtronic-status-", dir=work) as folder:
        headers, notes = _headers(recording, waiting, Path(folder) / "delta")
    known = {*counted, *(name.node for name in waiting), head.lease.node}
    refusals = [
        f"{r.name.node}, delta {r.name.seq}: refused ({r.verdict}), {r.reason}"
        for r in head.refused
    ]
    return Status(
        revision=recording.revision,
        run=head.run,
        lineage=head.lineage,
        round=head.round,
        serial=head.serial,
        counted=len(head.accepted),
        lease=head.lease,
        roster=head.roster,
        outer=head.outer,
        nodes=tuple(
            _node(node, head.round, counted.get(node), waiting, headers)
            for node in sorted(known)
        ),
        notes=(*_aside(head), *refusals, *notes),
        sizes=_sizes(recording),
        anchors=tuple(sorted(recording.anchors - {head.round})),
        replayable=recording.replayable(),
        checked=checked,
        problems=tuple(problems),
    )


def _aside(head: Manifest) -> list[str]:
    """Nodes that are not heard, and those that may be soon."""
    told = []
    for s in head.standings:
        what = f"set aside up to round {s.until}"
        if s.until <= head.round:
            what = f"{s.strikes} of {head.limits.strikes} strikes"
        told.append(f"{s.node}: {what}, {s.reason}")
    return told


def _node(
    node: str,
    round: int,
    counted: int | None,
    waiting: tuple[DeltaName, ...],
    headers: dict[DeltaName, Header],
) -> NodeStatus:
    own = [name for name in waiting if name.node == node]
    read = [headers[name] for name in own if name in headers]
    return NodeStatus(
        node=node,
        counted_round=counted,
        behind=None if counted is None else round - counted,
        waiting=len(own),
        steps=sum(header.inner_steps for header in read),
        tokens=sum(header.tokens for header in read),
        unread=len(own) - len(read),
    )


def _headers(
    recording: Recording, waiting: tuple[DeltaName, ...], path: Path
) -> tuple[dict[DeltaName, Header], list[str]]:
    """The headers of waiting deltas, and what is wrong with them."""
    found: dict[DeltaName, Header] = {}
    told, left, skipped = [], MAX_BYTES, 0
    for name in waiting:
        size = recording.sizes[name.path]
        if size > left:
            skipped += 1
            continue
        left -= size
        where = f"{name.node}, delta {name.seq}"
        try:
            header = _header(recording, name, path)
        except Corrupt as error:
            told.append(f"{where}: is no delta, {error}")
            continue
        wrong = disagreement(header, name) or inadmissible(recording.head, header)
        if wrong:
            told.append(f"{where}: cannot count, {wrong}")
        found[name] = header
    if skipped:
        told.append(f"waiting deltas that are large and were not read: {skipped}")
    return found, told


def _header(recording: Recording, name: DeltaName, path: Path) -> Header:
    recording.fetch(name.path, path)
    try:
        with open_delta(path) as file:
            return read_header(file)
    except Damaged as error:
        raise Corrupt(str(error).replace(str(path), "its file")) from error


def _sizes(recording: Recording) -> dict[str, int]:
    """The bytes of each part of the lane."""
    sizes = dict.fromkeys(PARTS, 0)
    for name, size in recording.sizes.items():
        sizes[_part(name)] += size
    return sizes


def _part(name: str) -> str:
    round = names.kept_round(name)
    if round is not None:
        rest = name.removeprefix(names.kept(round, ""))
        return _KEPT.get(rest, "kept deltas")
    return (
        "waiting deltas" if name.startswith(names.NODES) else _ROOT.get(name, "other")
    )
