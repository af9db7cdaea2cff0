"""``speedtronic key new``: make the key of a node."""

from dataclasses import dataclass

from speedtronic.shell.options import flag
from speedtronic.shell.trust_options import key_file_option, node_option


@dataclass(frozen=True)
class Options:
    """What ``key new`` understands."""

    node: str | None = node_option()
    file: str | None = key_file_option()
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Make a key and say its public half.

    Raises:
        ConfigError: the node has a key already, or the name cannot be one.
        StorageError: the file cannot be written.
    """
    from speedtronic.shell.console import answer, note, say
    from speedtronic.shell.distributed.identity import this_node
    from speedtronic.shell.keys import create, key_file

    node = options.node or this_node()
    path = key_file(node, options.file)
    key = create(path)
    if options.json:
        told = {"node": node, "key": key.public, "file": str(path)}
        answer({"ok": True, "exit_code": 0, **told})
        return 0
    note(f"the key of node {node} is in {path}; its public half is")
    say(key.public)
    return 0
