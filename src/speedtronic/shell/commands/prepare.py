"""``speedtronic prepare``: tokenise ahead of training, so that a run starts at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from speedtronic.shell.options import flag, option, repeated


@dataclass(frozen=True)
class Options:
    """What ``prepare`` understands."""

    config: str = option("the config file", metavar="PATH")
    set: Sequence[str] = repeated(
        "replace a field of the config", name="--set", metavar="FIELD=VALUE"
    )
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Make the token stores that are missing and say where they are.

    Raises:
        ConfigError, DataError, StorageError: as `speedtronic.shell.data_report`.
    """
    from speedtronic.shell.config import load_config
    from speedtronic.shell.console import answer, say
    from speedtronic.shell.data.prepare import silent
    from speedtronic.shell.data_report import prepare

    told = prepare(load_config(options.config, options.set), silent)
    if options.json:
        answer({"ok": True, **told})
        return 0
    for source in told["sources"]:
        say(f"{source['source']}: {source['tokens']} tokens in {source['store']}")
    if not told["sources"]:
        say("this data needs no token store")
    return 0
