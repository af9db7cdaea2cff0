"""``speedtronic key show``: the public half of a node's key."""

from dataclasses import dataclass

from speedtronic.shell.options import flag, option


@dataclass(frozen=True)
class Options:
    """What ``key show`` understands."""

    node: str | None = option(
        "the node's name (default: this machine's)", default=None, metavar="NAME"
    )
    file: str | None = option(
        "where it is (default: ~/.speedtronic/keys/NAME.pem)",
        default=None,
        metavar="FILE",
    )
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Say the public half.

    Raises:
        ConfigError: there is no key, or others may read it.
        StorageError: it cannot be read.
    """
    from speedtronic.pure.config import Config, Distributed
    from speedtronic.shell.console import answer, say
    from speedtronic.shell.distributed.identity import node_name
    from speedtronic.shell.keys import key_file, load

    node = options.node or node_name(Config(distributed=Distributed()))
    key = load(key_file(node, options.file)).public
    if options.json:
        answer({"ok": True, "exit_code": 0, "node": node, "key": key})
    else:
        say(key)
    return 0
