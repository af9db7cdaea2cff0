"""``speedtronic prepare``: tokenise ahead of training, so that a run starts at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speedtronic.shell.options import flag, option, repeated

if TYPE_CHECKING:
    from speedtronic.shell.data.stats import SourceStats


@dataclass(frozen=True)
class Options:
    """What ``prepare`` understands."""

    config: str = option("the config file", metavar="PATH")
    set: Sequence[str] = repeated(
        "replace a field of the config", name="--set", metavar="FIELD=VALUE"
    )
    push: str | None = option(
        "also put the stores on this lane, for data.store: LANE@FINGERPRINT",
        default=None,
        metavar="LANE",
    )
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Make the token stores that are missing and say where they are.

    Raises:
        ConfigError, DataError, StorageError: the data cannot be used or stored.
    """
    from speedtronic.shell.config import load_config
    from speedtronic.shell.console import answer, preparation, say
    from speedtronic.shell.data.stats import measure
    from speedtronic.shell.paths import token_folder

    config = load_config(options.config, options.set)
    with preparation(not options.json) as progress:
        stats = measure(config, directory=token_folder(config), progress=progress)
    stores = {s.name: s for s in stats.sources if s.store is not None}
    pushed = {} if options.push is None else _push(options.push, stores)
    if options.json:
        told = {
            name: {"tokens": s.tokens, "store": s.store, "pushed": pushed.get(name)}
            for name, s in stores.items()
        }
        answer({"ok": True, "sources": told})
        return 0
    for name, source in stores.items():
        say(f"{name}: {source.tokens} tokens in {source.store}")
        if name in pushed:
            say(f"  data.store: {pushed[name]}")
    if not stores:
        say("this data needs no token store")
    return 0


def _push(where: str, stores: Mapping[str, "SourceStats"]) -> dict[str, str]:
    """Put stores on a lane; what ``data.store`` calls each of them there."""
    from pathlib import Path

    from speedtronic.shell.data.store import Store
    from speedtronic.shell.data.travel import push_store
    from speedtronic.shell.lanes import parse_lane

    lane = parse_lane(where, create=True)
    told = {}
    for name, source in stores.items():
        store = Store(Path(str(source.store)))
        push_store(lane, store)
        told[name] = f"{where}@{store.about.fingerprint}"
    return told
