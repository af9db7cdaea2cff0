"""How a swarm looks: a live table on a terminal, a line per round elsewhere."""

import sys
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from speedtronic.shell.console import say
from speedtronic.shell.progress import compact
from speedtronic.shell.swarm import NodeStatus

COLUMNS = ("node", "state", "step", "loss", "round", "lag", "up", "down")


class SwarmTable:
    """Shows the nodes of a swarm; use it as a context manager.

    Args:
        last_step: of every node.
        quiet: show nothing.
    """

    def __init__(self, last_step: int, *, quiet: bool = False) -> None:
        self._last_step, self._quiet = last_step, quiet
        self._round = -1
        self._live: Live | None = None
        if not quiet and sys.stdout.isatty():
            console = Console(file=sys.stdout)
            self._live = Live(console=console, refresh_per_second=4)

    def __enter__(self) -> "SwarmTable":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, nodes: Sequence[NodeStatus]) -> None:
        """Show the nodes as they are now."""
        if self._live is not None:
            self._live.update(table(nodes, self._last_step))
            return
        newest = max((s.report.round for s in nodes if s.report), default=-1)
        if newest > self._round and not self._quiet:
            self._round = newest
            say(f"round {newest}: " + "  ".join(_short(status) for status in nodes))


def table(nodes: Sequence[NodeStatus], last_step: int) -> Table:
    """One row per node."""
    found = Table(*COLUMNS, box=None, pad_edge=False)
    for status in nodes:
        found.add_row(*row(status, last_step))
    return found


def row(status: NodeStatus, last_step: int) -> tuple[str, ...]:
    """The cells of one node.

    >>> waiting = NodeStatus(
    ...     node="node-0", exit_code=None, step=0, loss=None, report=None
    ... )
    >>> row(waiting, 100)
    ('node-0', 'starting', '0/100', '', '', '', '', '')
    """
    loss = "" if status.loss is None else f"{status.loss:.4f}"
    told = status.report
    place: tuple[str, ...] = ("", "", "", "")
    if told is not None:
        place = (
            str(told.base_round),
            str(max(0, told.round - told.base_round)),
            f"{compact(told.bytes_up)}B",
            f"{compact(told.bytes_down)}B",
        )
    step = f"{status.step}/{last_step}"
    return (status.node, state(status), step, loss, *place)


def state(status: NodeStatus) -> str:
    """What a node does, in one word, with a star for who leads."""
    code, told = status.exit_code, status.report
    if code is not None:
        return "done" if code == 0 else f"ended with {code}"
    if told is None:
        return "starting"
    return f"{told.state} *" if told.leads else told.state


def _short(status: NodeStatus) -> str:
    loss = "" if status.loss is None else f" loss {status.loss:.4f}"
    return f"{status.node} step {status.step}{loss}"
