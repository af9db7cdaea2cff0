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
        ConfigError, DataError, StorageError: the data cannot be used or stored.
    """
    import attrs

    from speedtronic.shell.config import load_config
    from speedtronic.shell.console import answer, preparation, say
    from speedtronic.shell.data.stats import measure
    from speedtronic.shell.paths import token_folder

    config = load_config(options.config, options.set)
    with preparation(not options.json) as progress:
        stats = measure(config, directory=token_folder(config), progress=progress)
    if options.json:
        answer({"ok": True, **attrs.asdict(stats)})
    else:
        say(stats.text())
    return 0
