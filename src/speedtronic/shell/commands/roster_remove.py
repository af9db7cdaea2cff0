"""``speedtronic roster remove``: what a node delivers from now on does not count."""

from dataclasses import dataclass

from speedtronic.shell.options import flag, positional
from speedtronic.shell.trust_options import owner_key_option


@dataclass(frozen=True)
class Options:
    """What ``roster remove`` understands."""

    lane: str = positional("where the run is: dir:PATH or hub:OWNER/NAME", name="lane")
    node: str = positional("the node's name", name="node")
    owner_key: str | None = owner_key_option()
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Ask the run's leader to publish a roster without this node.

    Raises:
        ConfigError: there is no signed run, no key of its owner, or no such node.
        LaneError: the lane does not answer.
    """
    from speedtronic.pure.round.roster import removed
    from speedtronic.shell.console import answer, say
    from speedtronic.shell.distributed.enrolment import ask

    node = options.node
    told = ask(options.lane, lambda old: removed(old, node), options.owner_key)
    if options.json:
        answer({"ok": True, "exit_code": 0, "told": told})
    else:
        say(told)
    return 0
