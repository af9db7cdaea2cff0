"""``speedtronic key show``: the public half of a node's key."""

from dataclasses import dataclass

from speedtronic.shell.options import flag
from speedtronic.shell.trust_options import key_file_option, node_option


@dataclass(frozen=True)
class Options:
    """What ``key show`` understands."""

    node: str | None = node_option()
    file: str | None = key_file_option()
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Say the public half.

    Raises:
        ConfigError: there is no key, or others may read it.
        StorageError: it cannot be read.
    """
    from speedtronic.shell.console import answer, say
    from speedtronic.shell.distributed.identity import this_node
    from speedtronic.shell.keys import key_file, load

    node = options.node or this_node()
    key = load(key_file(node, options.file)).public
    if options.json:
        answer({"ok": True, "exit_code": 0, "node": node, "key": key})
    else:
        say(key)
    return 0
