"""``speedtronic swarm``: several nodes of one run on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass

from speedtronic.shell.options import flag, option, repeated


@dataclass(frozen=True)
class Options:
    """What ``swarm`` understands."""

    config: str = option("the config file", metavar="PATH")
    nodes: int = option("how many nodes to start", metavar="N", kind=int)
    lane: str | None = option(
        "where they meet, dir:PATH or hub:OWNER/NAME (default: a folder in the run's)",
        default=None,
        metavar="LANE",
    )
    resume: bool = flag("go on with the nodes' runs, where there are any")
    overwrite: bool = flag("delete the nodes' runs and the folder in which they met")
    max_steps: int | None = option(
        "steps of each node (run.max_steps)", default=None, metavar="N", kind=int
    )
    output_dir: str | None = option(
        "folder of run folders (run.output_dir)", default=None, metavar="DIR"
    )
    set: Sequence[str] = repeated(
        "replace a field of the config", name="--set", metavar="FIELD=VALUE"
    )
    json: bool = flag("print one JSON object at the end")
    quiet: bool = flag("print nothing but the last line")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Train on several nodes, and print what came of it.

    Raises:
        SpeedtronicError: what the user can mend, before any node starts.
    """
    from pathlib import Path

    from speedtronic.errors import ConfigError
    from speedtronic.shell.config import load_config
    from speedtronic.shell.console import answer, complain, preparation, say

    if options.nodes < 1:
        raise ConfigError(f"--nodes: expected at least 1, found {options.nodes}")
    if options.resume and options.overwrite:
        raise ConfigError("--resume, --overwrite: expected one of them, found both")
    overrides = _overrides(options)
    config = load_config(options.config, overrides)

    from speedtronic.shell.distributed.outcome import evaluate_global
    from speedtronic.shell.interrupt import Interrupt
    from speedtronic.shell.swarm import Swarm
    from speedtronic.shell.swarm_prepare import make_ready
    from speedtronic.shell.swarm_table import SwarmTable

    arguments = ["--resume"] if options.resume else []
    arguments += ["--overwrite"] if options.overwrite else []
    swarm = Swarm(config, Path(options.config), overrides, options.nodes, arguments)
    quiet = options.quiet or options.json
    with preparation(not quiet) as preparing:
        make_ready(
            swarm,
            Path(options.config),
            resume=options.resume,
            overwrite=options.overwrite,
            preparing=preparing,
        )
    with Interrupt() as interrupt:
        with SwarmTable(config.run.max_steps, quiet=quiet) as table:
            result = swarm.run(interrupt, table.show)
    complain(result.problems)
    outcome = evaluate_global(config, swarm.lane)
    if options.json:
        answer(
            {
                "ok": result.exit_code == 0,
                "exit_code": result.exit_code,
                "nodes": {s.node: s.exit_code for s in result.nodes},
                "lane": swarm.lane,
                "round": outcome.round,
                "validation_loss": outcome.validation_loss,
            }
        )
    else:
        say(outcome.line(swarm.lane))
    return result.exit_code


def _overrides(options: Options) -> list[str]:
    own = {
        "run.max_steps": options.max_steps,
        "run.output_dir": options.output_dir,
        "distributed.lane": options.lane,
    }
    given = [f"{path}={value}" for path, value in own.items() if value is not None]
    return [*options.set, *given]
