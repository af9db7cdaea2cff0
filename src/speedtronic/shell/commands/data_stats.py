"""``speedtronic data stats``: how much data there is, and how far it reaches."""

from collections.abc import Sequence
from dataclasses import dataclass

from speedtronic.shell.options import flag, positional, repeated


@dataclass(frozen=True)
class Options:
    """What ``data stats`` understands."""

    config: str = positional("the config file", name="config")
    set: Sequence[str] = repeated(
        "replace a field of the config", name="--set", metavar="FIELD=VALUE"
    )
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Prepare what is missing and print the counts.

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
    for source in told.pop("sources"):
        say(f"{source.pop('source')}:")
        _table(source, "  ")
    for note in told.pop("notes"):
        say(f"note: {note}")
    _table(told, "")
    return 0


def _table(counts: dict[str, object], indent: str) -> None:
    from speedtronic.shell.console import say

    width = max(map(len, counts), default=0)
    for name, value in counts.items():
        number = f"{value:,}" if isinstance(value, int | float) else value
        say(f"{indent}{name.replace('_', ' '):{width}}  {number}")
