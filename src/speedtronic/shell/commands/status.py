"""``speedtronic status``: how a run on a lane stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speedtronic.shell.options import flag, positional
from speedtronic.shell.trust_options import owner_option

if TYPE_CHECKING:
    from speedtronic.shell.distributed.status import Status


@dataclass(frozen=True)
class Options:
    """What ``status`` understands."""

    lane: str = positional("where the run is: dir:PATH or hub:OWNER/NAME", name="lane")
    owner: str | None = owner_option()
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Say how the run stands; 1 if the chain of its manifests does not verify.

    Raises:
        ConfigError: there is no run.
        LaneError: the lane does not answer, or the newest manifest is not one.
    """
    import attrs

    from speedtronic.shell.console import answer, complain, say
    from speedtronic.shell.distributed.recording import lane_of_a_run, owner_of
    from speedtronic.shell.distributed.status import status

    found = status(lane_of_a_run(options.lane), owner=owner_of(options.owner))
    code = 1 if found.problems else 0
    complain(found.problems)
    if options.json:
        told = attrs.asdict(found)
        told["outer"] = dict(found.outer)
        answer({"ok": code == 0, "exit_code": code, **told})
    else:
        say(_text(found))
    return code


def _text(found: "Status") -> str:
    lease = found.lease
    state = "given up by" if lease.released else "held by"
    outer = ", ".join(f"{name} {value}" for name, value in found.outer)
    rows = ", ".join(f"{first} to {last}" for first, last in found.replayable)
    anchors = ", ".join(map(str, found.anchors))
    verdict = "does not verify" if found.problems else "verifies"
    lines = [
        f"run {found.run}, round {found.round}, serial {found.serial}",
        f"lineage {found.lineage}",
        f"lease {state} {lease.node}, life {lease.life}, epoch {lease.epoch}, "
        f"renewals {lease.renewals}",
        _trust(found),
        f"outer step: {outer}",
        f"deltas in the newest round: {found.counted}",
        "",
        *_nodes(found),
        *(["", *found.notes] if found.notes else []),
        "",
        *_table(
            ("part of the lane", "bytes"),
            [(part, f"{size:,}") for part, size in found.sizes.items()],
        ),
        "",
        f"rounds that can be replayed: {rows or 'none'}",
        f"anchors: {anchors or 'none'}",
        f"chain of {found.checked} manifests: {verdict}",
    ]
    return "\n".join(lines)


def _trust(found: "Status") -> str:
    roster = found.roster
    if roster is None:
        return "open: whoever can write to the lane changes the model"
    members = ", ".join(f"{m.node} ({m.role})" for m in roster.members)
    return f"signed, roster version {roster.version}: {members}; owner {roster.owner}"


def _nodes(found: "Status") -> list[str]:
    titles = ("node", "last counted", "behind", "waiting", "steps", "tokens")
    rows = []
    for node in found.nodes:
        known = node.counted_round is not None
        more = "+" if node.unread else ""  # at least so many
        rows.append(
            (
                node.node,
                f"round {node.counted_round}" if known else "unknown",
                str(node.behind) if known else "",
                str(node.waiting),
                f"{node.steps:,}{more}",
                f"{node.tokens:,}{more}",
            )
        )
    return _table(titles, rows)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns; as wide as the terminal, or as needed where there is none."""
    import shutil
    import sys

    from rich.console import Console
    from rich.table import Table

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console = Console(width=width, color_system=None, markup=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]
