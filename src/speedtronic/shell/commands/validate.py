"""``speedtronic validate``: everything that can be checked without training."""

from collections.abc import Sequence
from dataclasses import dataclass

from speedtronic.shell.options import choice, flag, option, repeated


@dataclass(frozen=True)
class Options:
    """What ``validate`` understands."""

    config: str = option("the config file", metavar="PATH")
    set: Sequence[str] = repeated(
        "replace a field of the config", name="--set", metavar="FIELD=VALUE"
    )
    format: str = choice("how to print the config", ["yaml", "json"], default="yaml")
    step_seconds: float | None = option(
        "seconds of an inner step, for a run on the Hub",
        default=None,
        metavar="S",
        kind=float,
    )
    syntax_only: bool = flag("only read the file: no model, data or device")
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Print the config in full, or raise what is wrong with it.

    Raises:
        ConfigError: one line per mistake.
    """
    from speedtronic.errors import ConfigError
    from speedtronic.shell.config import load_config, to_dict, to_yaml
    from speedtronic.shell.console import answer, note, say

    config = load_config(options.config, options.set)
    advice: list[str] = []
    if not options.syntax_only:
        from speedtronic.shell.check import check, shapes
        from speedtronic.shell.commits import commit_advice

        if problems := check(config):
            raise ConfigError(problems)
        advice = [str(one) for one in shapes(config)]
        commits = commit_advice(config, seconds(options.step_seconds))
        advice += [str(commits)] if commits is not None else []
    if options.json:
        answer({"ok": True, "config": to_dict(config), "advice": advice})
        return 0
    for line in advice:
        note(f"advice: {line}")
    if options.format == "json":
        answer(to_dict(config))
    else:
        say(to_yaml(config), end="")
    return 0


def seconds(given: float | None) -> float | None:
    """A duration from the command line.

    Raises:
        ConfigError: it is none.

    >>> seconds(0.5)
    0.5
    """
    import math

    from speedtronic.errors import ConfigError

    if given is not None and not (math.isfinite(given) and given > 0):
        raise ConfigError(f"--step-seconds: expected a number above 0, found {given}")
    return given
