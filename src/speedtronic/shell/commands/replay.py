"""``speedtronic replay``: compute the rounds of a run again, and compare every bit."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from speedtronic.shell.options import flag, option, positional
from speedtronic.shell.trust_options import owner_option

if TYPE_CHECKING:
    from speedtronic.pure.delta import Weights
    from speedtronic.shell.distributed.replay import Replayed, RoundReport


@dataclass(frozen=True)
class Options:
    """What ``replay`` understands."""

    lane: str = positional("where the run is: dir:PATH or hub:OWNER/NAME", name="lane")
    first: int | None = option(
        "the first round, by default the first that can be computed",
        default=None,
        metavar="R",
        kind=int,
        name="--from",
    )
    last: int | None = option(
        "the last round, by default the newest",
        default=None,
        metavar="R",
        kind=int,
        name="--to",
    )
    write: str | None = option(
        "save the replayed model as this new safetensors file",
        default=None,
        metavar="FILE",
    )
    owner: str | None = owner_option()
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Replay, say what came of each round, and return 1 unless all of them verified.

    Raises:
        ConfigError: there is no run, these rounds are not kept, or the file exists.
        LaneError: the lane does not answer.
        StorageError: the model cannot be written.
    """
    from contextlib import ExitStack

    import attrs

    from speedtronic.shell.console import answer, complain, note, say
    from speedtronic.shell.distributed.recording import lane_of_a_run, owner_of
    from speedtronic.shell.distributed.replay import replay
    from speedtronic.shell.progress import ProgressBar

    target = None if options.write is None else Path(options.write)
    _check_free(target)
    lane = lane_of_a_run(options.lane)
    with ExitStack() as stack:
        bars: list[ProgressBar] = []  # none before the number of rounds is known

        def show(report: "RoundReport", last: int) -> None:
            if not bars:
                bar = ProgressBar(
                    last, report.round, label="replay", enabled=not options.json
                )
                bars.append(stack.enter_context(bar))
            if report.problem:
                complain([_line(report)])
            elif not options.json:
                say(_line(report))
            bars[0].advance(report.round)

        found = replay(
            lane,
            first=options.first,
            last=options.last,
            owner=owner_of(options.owner),
            progress=show,
        )
    code = 0 if found.ok else 1
    if target is not None and found.ok and found.state is not None:
        _save(found.state.weights, found.renamed, target)
    elif target is not None:
        note(f"{target} is not written: not every round verified")
    if options.json:
        rounds = [attrs.asdict(report) for report in found.rounds]
        problems = [_line(report) for report in found.rounds if report.problem]
        told = {"ok": found.ok, "exit_code": code, "rounds": rounds}
        answer({**told, "problems": problems})
    else:
        say(_closing(found))
    return code


def _line(report: "RoundReport") -> str:
    from speedtronic.shell.progress import compact

    where = f"round {report.round}"
    if report.problem:
        return f"{where}: {report.problem}"
    if report.anchor:
        return f"{where}: the anchor to begin at"
    deltas = _count(report.deltas, "delta")
    roster = "".join(f"; {line}" for line in report.roster)
    return f"{where}: verified, {deltas}, {compact(report.tokens)} tokens{roster}"


def _closing(found: "Replayed") -> str:
    from speedtronic.shell.progress import compact

    computed = [report for report in found.rounds if not report.anchor]
    right = [report for report in computed if report.verified]
    failed = [report.round for report in found.rounds if report.problem]
    deltas = _count(sum(report.deltas for report in right), "delta")
    tokens = compact(sum(report.tokens for report in right))
    told = f"{len(right)} of {_count(len(computed), 'round')} verified, {deltas}"
    first = f"; the first that did not is round {failed[0]}" if failed else ""
    return f"{told}, {tokens} tokens{first}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _check_free(path: Path | None) -> None:
    from speedtronic.errors import ConfigError
    from speedtronic.shell.paths import why_not_writable

    if path is None:
        return
    if path.exists() or path.is_symlink():
        raise ConfigError(f"--write: {path} exists; give a new name")
    if not path.parent.is_dir():
        raise ConfigError(f"--write: {path.parent} is not a folder")
    if told := why_not_writable(path.parent):
        raise ConfigError(f"--write: {told}")


def _save(weights: "Weights", renamed: Mapping[str, str], path: Path) -> None:
    """Write the model under a temporary name first, so that ``path`` is whole."""
    import os
    import secrets

    from speedtronic.shell.atomic import explained
    from speedtronic.shell.distributed.files import write_weights

    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        write_weights(temporary, weights, renamed)
        _check_free(path)
        with explained(path):
            os.rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
