"""``speedtronic roster add``: let a node take part, or change its key, role, limit."""

from dataclasses import dataclass

from speedtronic.shell.options import choice, flag, option, positional
from speedtronic.shell.trust_options import owner_key_option


@dataclass(frozen=True)
class Options:
    """What ``roster add`` understands."""

    lane: str = positional("where the run is: dir:PATH or hub:OWNER/NAME", name="lane")
    node: str = positional("the node's name", name="node")
    key: str = positional("its public key; `speedtronic key show` says it", name="key")
    role: str = choice(
        "a master may also lead; as it was, or worker for a new node",
        ["worker", "master", "same"],
        default="same",
    )
    max_norm: float | None = option(
        "refuse deltas of it with a larger norm; 0 for no limit, as it was by default",
        default=None,
        metavar="X",
        kind=float,
    )
    owner_key: str | None = owner_key_option()
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Ask the run's leader to publish a roster with this node.

    Raises:
        ConfigError: there is no signed run, no key of its owner, or the node does not
            fit.
        LaneError: the lane does not answer.
    """
    from speedtronic.errors import ConfigError, Corrupt
    from speedtronic.pure.round import roster as rosters
    from speedtronic.shell.console import answer, say
    from speedtronic.shell.distributed.enrolment import ask

    def change(old: rosters.Roster) -> rosters.Roster:
        was = old.member(options.node)
        limit = was.max_norm if was else None
        if options.max_norm is not None:
            limit = options.max_norm or None
        role = options.role
        if role == "same":
            role = was.role if was else "worker"
        entry = {"node": options.node, "key": options.key}
        try:
            member = rosters.member_from_plain(
                {**entry, "role": role, "max_norm": limit}, "roster"
            )
        except Corrupt as error:
            raise ConfigError(str(error)) from None
        return rosters.added(old, member)

    told = ask(options.lane, change, options.owner_key)
    if options.json:
        answer({"ok": True, "exit_code": 0, "told": told})
    else:
        say(told)
    return 0
