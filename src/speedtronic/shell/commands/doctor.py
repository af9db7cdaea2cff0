"""``speedtronic doctor``: what works here, and how to mend what does not."""

from dataclasses import dataclass

from speedtronic.shell.options import flag, option


@dataclass(frozen=True)
class Options:
    """What ``doctor`` understands."""

    config: str | None = option("also check this config", default=None, metavar="PATH")
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Print the findings; 1 if the machine must be mended, 2 if the config must."""
    import attrs

    from speedtronic.errors import ConfigError
    from speedtronic.pure.config import Config
    from speedtronic.shell.config import load_config
    from speedtronic.shell.console import answer, complain, say
    from speedtronic.shell.doctor import examine

    config, problems = Config(), []
    if options.config is not None:
        try:
            config = load_config(options.config)
        except ConfigError as error:
            problems = error.problems
    findings = examine(config.run.output_dir)
    if options.config is not None and not problems:
        from speedtronic.shell.check import check

        problems = check(config)
    bad = any(finding.state == "bad" for finding in findings)
    code = 2 if problems else int(bad)
    if options.json:
        told = [attrs.asdict(finding) for finding in findings]
        answer({"ok": code == 0, "findings": told, "problems": problems})
    else:
        for finding in findings:
            say(f"{finding.state:4}  {finding.name}: {finding.told}")
            if finding.remedy:
                say(f"      -> {finding.remedy}")
    complain(problems)
    return code
