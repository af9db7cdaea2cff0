"""The model card of a run: what it has come to, for people, as the README of its lane.

The card holds the numbers that it tells a second time, on its last line, for the leader
of the next round. So whoever leads goes on counting where the one before stopped, and
nothing has to be kept anywhere else. A page that somebody wrote over is no mistake: the
count begins anew and says since when.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.metrics import sparkline
from speedtronic.pure.round import plain
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Manifest

MAX_CARD_BYTES = 2**18
POINTS = 24  # of the table of losses
_BEFORE, _AFTER = "<!-- speedtronic ", " -->"


@attrs.frozen
class Point:
    """The losses that a leader knew when it published a round, nats per target."""

    round: int
    loss: float | None  # of the last step that it logged itself
    validation_loss: float | None  # of its last evaluation


@attrs.frozen(kw_only=True)
class Facts:
    """What is counted over the rounds of a run."""

    since: int = 0  # the round behind which steps and tokens are counted
    steps: int = 0  # inner steps of all nodes, as far as they count
    tokens: int = 0
    curve: tuple[Point, ...] = ()


@attrs.frozen(kw_only=True)
class About:
    """What a card says of the model itself."""

    title: str
    version: str  # of the program
    parameters: int
    loading: str  # how to load it, in Markdown
    library: str | None = None  # that loads it, by the Hub's name for it
    license: str | None = None


def counted(facts: Facts, round: int, headers: Sequence[Header], point: Point) -> Facts:
    """The facts with one more round.

    Args:
        facts: of the rounds before.
        round: its number.
        headers: of the deltas that count in it.
        point: what its leader knows of the loss.

    >>> facts = counted(Facts(), 1, [], Point(1, 5.0, None))
    >>> facts.tokens, facts.curve
    (0, (Point(round=1, loss=5.0, validation_loss=None),))
    """
    finite = Point(round, _finite(point.loss), _finite(point.validation_loss))
    curve = tuple(p for p in facts.curve if p.round < round)
    if finite.loss is not None or finite.validation_loss is not None:
        curve = (*curve, finite)
    if len(curve) > POINTS:  # the newest stay, older ones get sparser
        curve = (*curve[: POINTS // 2 : 2], *curve[POINTS // 2 :])
    return attrs.evolve(
        facts,
        steps=facts.steps + sum(header.inner_steps for header in headers),
        tokens=facts.tokens + sum(header.tokens for header in headers),
        curve=curve,
    )


def recalled(card: bytes | None, round: int) -> Facts:
    """The facts that a card tells on its last line.

    Args:
        card: the page, None if there is none.
        round: of the run when it was read.

    Returns:
        New facts that begin with that round where the page tells none.

    >>> recalled(None, 7)
    Facts(since=7, steps=0, tokens=0, curve=())
    """
    last = b"" if card is None or len(card) > MAX_CARD_BYTES else card.strip()
    line = last.rpartition(b"\n")[2].decode("utf-8", "replace")
    if not (line.startswith(_BEFORE) and line.endswith(_AFTER)):
        return Facts(since=round)
    told = line[len(_BEFORE) : -len(_AFTER)].encode()
    try:
        value = plain.decode(told, "card", MAX_CARD_BYTES)
        return Facts(**plain.record(value, "card", _FACTS))
    except Corrupt:
        return Facts(since=round)


def card(about: About, manifest: Manifest, facts: Facts) -> str:
    """The page.

    Args:
        about: of the model.
        manifest: of the round that it is published with.
        facts: with that round.
    """
    parts = [
        _front_matter(about),
        f"# {about.title}",
        "The global model of a training run on several nodes. This page and the weights"
        " beside it are written anew with every round.",
        _table(("", ""), _rows(about, manifest, facts)),
        "## Loss",
        _losses(facts),
        "## Loading it",
        about.loading,
        f"{_BEFORE}{plain.encode(_to_plain(facts)).decode()}{_AFTER}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(about: About) -> str:
    lines = ["tags:", "- speedtronic", "- diloco"]
    if about.library is not None:
        lines = [f"library_name: {about.library}", *lines]
    if about.library == "transformers":
        lines.append("pipeline_tag: text-generation")
    if about.license is not None:
        lines.append(f"license: {json.dumps(about.license)}")  # JSON is YAML
    return "\n".join(["---", *lines, "---"])


def _rows(about: About, manifest: Manifest, facts: Facts) -> list[tuple[str, str]]:
    nodes = sorted({r.node for r in manifest.ledger if r.verdict == "accepted"})
    since = f" since round {facts.since}" if facts.since else ""
    outer = ", ".join(f"{name} {value}" for name, value in manifest.outer)
    rows = [
        ("round", str(manifest.round)),
        ("tokens", f"{facts.tokens:,}{since}"),
        ("inner steps of all nodes", f"{facts.steps:,}{since}"),
        (f"nodes of the last {manifest.limits.window} rounds", ", ".join(nodes)),
        ("deltas in this round", str(len(manifest.accepted))),
        ("outer step", outer),
        ("parameters", f"{about.parameters:,}"),
        ("run", manifest.run),
        ("lineage", manifest.lineage),
        ("written by", f"speedtronic {about.version}"),
    ]
    known = [p for p in facts.curve if p.validation_loss is not None]
    if known:
        told = f"{known[-1].validation_loss:.4f} nats, round {known[-1].round}"
        rows.insert(3, ("validation loss", told))
    return [(title, text or "none yet") for title, text in rows]


def _losses(facts: Facts) -> str:
    losses = [p.loss for p in facts.curve if p.loss is not None]
    if not facts.curve:
        return "Not known yet."
    rows = [
        (str(p.round), _number(p.loss), _number(p.validation_loss)) for p in facts.curve
    ]
    drawn = f"```text\n{sparkline(losses, POINTS)}\n```\n\n" if losses else ""
    told = (
        "Nats per target, as the leader of each round knew it: of its own last step,"
        " and of its last evaluation."
    )
    titles = ("round", "training loss", "validation loss")
    return f"{drawn}{told}\n\n{_table(titles, rows)}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _to_plain(facts: Facts) -> dict[str, Any]:
    curve = [[p.round, p.loss, p.validation_loss] for p in facts.curve]
    return {**attrs.asdict(facts), "curve": curve}


def _point(value: Any, where: str) -> Point:
    if not isinstance(value, list) or len(value) != 3:
        raise Corrupt(f"{where}: expected a round and two losses")
    round, *losses = value
    for loss in losses:
        if loss is not None and type(loss) not in (int, float):
            raise Corrupt(f"{where}: expected numbers")
    return Point(plain.integer()(round, where), *losses)


_FACTS: Mapping[str, plain.Reader[Any]] = {
    "since": plain.integer(),
    "steps": plain.integer(),
    "tokens": plain.integer(),
    "curve": plain.array(_point, POINTS + 1),
}
