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
        ConfigError, DataError, StorageError: the data cannot be used or stored.
    """
    from speedtronic.shell.config import load_config
    from speedtronic.shell.console import answer, say, tenths
    from speedtronic.shell.data.stats import measure
    from speedtronic.shell.paths import token_folder

    config = load_config(options.config, options.set)
    stats = measure(config, directory=token_folder(config), progress=tenths())
    stores = {s.name: s for s in stats.sources if s.store is not None}
    if options.json:
        told = {
            name: {"tokens": s.tokens, "store": s.store} for name, s in stores.items()
        }
        answer({"ok": True, "sources": told})
        return 0
    for name, source in stores.items():
        say(f"{name}: {source.tokens} tokens in {source.store}")
    if not stores:
        say("this data needs no token store")
    return 0
