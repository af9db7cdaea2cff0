"""``speedtronic doctor``: what works here, and how to mend what does not."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from speedtronic.shell.options import flag, option

if TYPE_CHECKING:  # commands import when they run, so that the others start fast
    from speedtronic.pure.config import Config
    from speedtronic.shell.assignment import Assignment


@dataclass(frozen=True)
class Options:
    """What ``doctor`` understands."""

    config: str | None = option("also check this config", default=None, metavar="PATH")
    optimizer: bool = flag("also print which optimizer has which parameter")
    step_seconds: float | None = option(
        "seconds of an inner step, for a run on the Hub",
        default=None,
        metavar="S",
        kind=float,
    )
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Print the findings; 1 if the machine must be mended, 2 if the config must.

    Raises:
        ConfigError: for ``--optimizer`` without a config.
    """
    import attrs

    from speedtronic.errors import ConfigError
    from speedtronic.pure.config import Config
    from speedtronic.shell.commands.validate import seconds
    from speedtronic.shell.config import load_config
    from speedtronic.shell.console import answer, complain, say
    from speedtronic.shell.doctor import commits, examine, shapes

    if options.optimizer and options.config is None:
        raise ConfigError("--optimizer: expected --config PATH beside it, found none")
    config, problems = None, []
    if options.config is not None:
        try:
            config = load_config(options.config)
        except ConfigError as error:
            problems = error.problems
    findings = examine((config or Config()).run.output_dir)
    found: list[Assignment] = []
    if config is not None:
        problems = _check(config, found if options.optimizer else None)
        findings += shapes(config)
        findings += commits(config, seconds(options.step_seconds))
    bad = any(finding.state == "bad" for finding in findings)
    code = 2 if problems else int(bad)
    if options.json:
        told = [attrs.asdict(finding) for finding in findings]
        more = {"optimizer": attrs.asdict(found[0])} if found else {}
        answer({"ok": code == 0, "findings": told, "problems": problems, **more})
    else:
        for finding in findings:
            say(f"{finding.state:4}  {finding.name}: {finding.told}")
            if finding.remedy:
                say(f"      -> {finding.remedy}")
        for assignment in found:
            _show(assignment)
    complain(problems)
    return code


def _check(config: "Config", found: "list[Assignment] | None") -> list[str]:
    """What is wrong with a config; what its optimizers have, if that is asked."""
    from speedtronic.shell.assignment import assigned
    from speedtronic.shell.check import check, problems_of

    problems = check(config)
    if found is not None:
        told = problems_of("optimizer", lambda: found.append(assigned(config)))
        problems += [line for line in told if line not in problems]
    return problems


def _show(assignment: "Assignment") -> None:
    from speedtronic.shell.assignment import table
    from speedtronic.shell.console import say

    say("")
    for line in table(assignment):
        say(line)
