"""``speedtronic key new``: make the key of a node."""

from dataclasses import dataclass

from speedtronic.shell.options import flag, option


@dataclass(frozen=True)
class Options:
    """What ``key new`` understands."""

    node: str | None = option(
        "the node's name (default: this machine's)", default=None, metavar="NAME"
    )
    file: str | None = option(
        "where to put it (default: ~/.speedtronic/keys/NAME.pem)",
        default=None,
        metavar="FILE",
    )
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Make a key and say its public half.

    Raises:
        ConfigError: the node has a key already, or the name cannot be one.
        StorageError: the file cannot be written.
    """
    from speedtronic.pure.config import Config, Distributed
    from speedtronic.shell.console import answer, note, say
    from speedtronic.shell.distributed.identity import node_name
    from speedtronic.shell.keys import create, key_file

    node = options.node or node_name(Config(distributed=Distributed()))
    path = key_file(node, options.file)
    key = create(path)
    if options.json:
        told = {"node": node, "key": key.public, "file": str(path)}
        answer({"ok": True, "exit_code": 0, **told})
        return 0
    note(f"the key of node {node} is in {path}; its public half is")
    say(key.public)
    return 0
