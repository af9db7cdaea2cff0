"""``speedtronic join``: take part in a run, from nothing but the name of its lane."""

from collections.abc import Sequence
from dataclasses import dataclass

from speedtronic.shell.options import choice, flag, option, positional, repeated
from speedtronic.shell.trust_options import owner_option


@dataclass(frozen=True)
class Options:
    """What ``join`` understands."""

    lane: str = positional("where the run is: dir:PATH or hub:OWNER/NAME", name="lane")
    role: str = choice(
        "auto may lead when nobody else does, worker never",
        ["auto", "worker"],
        default="auto",
    )
    trust: bool = flag("load the code and the datasets that the run names")
    owner: str | None = owner_option()
    max_steps: int | None = option(
        "steps of this node (run.max_steps)", default=None, metavar="N", kind=int
    )
    output_dir: str | None = option(
        "folder of run folders (run.output_dir)", default=None, metavar="DIR"
    )
    set: Sequence[str] = repeated(
        "replace a field of the run's config", name="--set", metavar="FIELD=VALUE"
    )
    json: bool = flag("print one JSON object at the end, and progress to stderr")
    quiet: bool = flag("print nothing but the last line")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Fetch what the run says, tell what comes of it, and train.

    Raises:
        SpeedtronicError: as `speedtronic.shell.distributed.joining` and `train`.
    """
    from speedtronic.shell.commands.train import carry_out
    from speedtronic.shell.console import note
    from speedtronic.shell.distributed.joining import find_run, join_run
    from speedtronic.shell.distributed.recording import owner_of

    joining = join_run(
        find_run(options.lane, owner_of(options.owner)),
        _overrides(options),
        role=options.role,
        trust=options.trust,
    )
    if not options.quiet:
        for line in joining.lines:
            note(line)
    return carry_out(
        joining.config,
        resume="auto",
        overwrite=False,
        quiet=options.quiet,
        json=options.json,
    )


def _overrides(options: Options) -> list[str]:
    own = {
        "run.max_steps": options.max_steps,
        "run.output_dir": options.output_dir,
    }
    given = [f"{path}={value}" for path, value in own.items() if value is not None]
    return [*options.set, *given]
