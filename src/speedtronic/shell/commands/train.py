"""``speedtronic train``: from a config to a trained model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speedtronic.shell.options import flag, option, optional_value, repeated

if TYPE_CHECKING:
    from speedtronic.pure.config import Config
    from speedtronic.shell.train import TrainResult


@dataclass(frozen=True)
class Options:
    """What ``train`` understands."""

    config: str = option("the config file", metavar="PATH")
    resume: str | None = optional_value(
        "go on: from this checkpoint, from what a lane (hub:OWNER/NAME, dir:PATH) has "
        "of the run, or from its newest whole one if there is one (auto, which may be "
        "left out)",
        metavar="auto|PATH|LANE",
    )
    overwrite: bool = flag("delete the run of this name, if there is one")
    device: str | None = option(
        "where to run (run.device)", default=None, metavar="NAME"
    )
    max_steps: int | None = option(
        "steps in all (run.max_steps)", default=None, metavar="N", kind=int
    )
    output_dir: str | None = option(
        "folder of run folders (run.output_dir)", default=None, metavar="DIR"
    )
    set: Sequence[str] = repeated(
        "replace a field of the config", name="--set", metavar="FIELD=VALUE"
    )
    json: bool = flag("print one JSON object at the end, and progress to stderr")
    quiet: bool = flag("print nothing but the last line")
    debug: bool = flag("show the traceback of an error")


def overrides(options: Options) -> list[str]:
    """What the command line says about the config; its own options come last.

    >>> overrides(Options(config="c.yaml", set=["seed=1"], max_steps=5))
    ['seed=1', 'run.max_steps=5']
    """
    own = {
        "run.device": options.device,
        "run.max_steps": options.max_steps,
        "run.output_dir": options.output_dir,
    }
    given = [f"{path}={value}" for path, value in own.items() if value is not None]
    return [*options.set, *given]


def run(options: Options) -> int:
    """Train, and print one line of what came of it.

    Raises:
        SpeedtronicError: as `speedtronic.shell.train.train`.
    """
    from speedtronic.errors import ConfigError
    from speedtronic.shell.config import load_config

    if options.resume is not None and options.overwrite:
        raise ConfigError("--resume, --overwrite: expected one of them, found both")
    return carry_out(
        load_config(options.config, overrides(options)),
        resume=options.resume,
        overwrite=options.overwrite,
        quiet=options.quiet,
        json=options.json,
    )


def carry_out(
    config: "Config", *, resume: str | None, overwrite: bool, quiet: bool, json: bool
) -> int:
    """Train a config, print what came of it, and return the exit code.

    Raises:
        SpeedtronicError: as `speedtronic.shell.train.train`.
    """
    import os
    import sys
    from contextlib import nullcontext, redirect_stdout
    from pathlib import Path

    from speedtronic.shell.console import answer, preparation, say
    from speedtronic.shell.logs import logging_to
    from speedtronic.shell.rank_command import own_exit_code, train_along
    from speedtronic.shell.rank_place import read_place
    from speedtronic.shell.train import train

    place = read_place(os.environ)
    if place.rank:
        return train_along(config, place, resume=resume, overwrite=overwrite)
    told = config.logging
    level = "WARNING" if quiet and told.level in _CHATTY else told.level
    # The one JSON object must be alone on stdout, whatever a model or a hook prints.
    aside = redirect_stdout(sys.stderr) if json else nullcontext()
    file = None if told.file is None else Path(told.file)
    bar = preparation(told.progress and not (quiet or json))
    with aside, logging_to(level, file), own_exit_code(place), bar as preparing:
        result = train(
            config,
            resume=resume,
            overwrite=overwrite,
            progress=False if quiet else None,
            preparing=preparing,
        )
    if json:
        fields = {name: getattr(result, name) for name in _TOLD}
        ok = result.exit_code == 0
        answer({"ok": ok, "exit_code": result.exit_code, **fields})
    else:
        say(summary_line(result))
    return result.exit_code


def summary_line(result: "TrainResult") -> str:
    """The last line of a run, as scripts read it since 2.0."""
    done = "interrupted" if result.exit_code else "completed"
    losses = (result.loss, result.validation_loss)
    loss, validation_loss = ("null" if x is None else repr(x) for x in losses)
    return (
        f"{done} steps={result.steps} samples={result.samples} tokens={result.tokens}"
        f" loss={loss} validation_loss={validation_loss}"
    )


_CHATTY = ("DEBUG", "INFO")
_TOLD = (
    "steps",
    "samples",
    "tokens",
    "loss",
    "validation_loss",
    "bits_per_byte",
    "average_validation_loss",
    "run_directory",
)
