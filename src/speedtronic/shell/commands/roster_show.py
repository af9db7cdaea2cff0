"""``speedtronic roster show``: who may take part in a run."""

from dataclasses import dataclass

from speedtronic.shell.options import flag, positional


@dataclass(frozen=True)
class Options:
    """What ``roster show`` understands."""

    lane: str = positional("where the run is: dir:PATH or hub:OWNER/NAME", name="lane")
    json: bool = flag("print one JSON object")
    debug: bool = flag("show the traceback of an error")


def run(options: Options) -> int:
    """Say who is in the roster, and what is asked for and not published yet.

    Raises:
        ConfigError: there is no run.
        LaneError: the lane does not answer, or what it holds is not to be believed.
    """
    import attrs

    from speedtronic.pure.round.roster import changes
    from speedtronic.shell.console import answer, say
    from speedtronic.shell.distributed.enrolment import find_roster

    found = find_roster(options.lane)
    roster, asked = found.roster, found.proposal
    if options.json:
        told = {"roster": attrs.asdict(roster) if roster else None}
        told["asked"] = attrs.asdict(asked) if asked else None
        answer({"ok": True, "exit_code": 0, "run": found.run, **told})
        return 0
    if roster is None:
        say(f"run {found.run} is open: whoever can write to its lane takes part")
        return 0
    say(f"run {found.run}, roster version {roster.version}, owner {roster.owner}")
    width = max(len(m.node) for m in roster.members)
    for member in roster.members:
        limit = "" if member.max_norm is None else f"  norm at most {member.max_norm}"
        say(f"{member.node:{width}}  {member.role:6}  {member.key}{limit}")
    for line in changes(roster, asked) if asked else ():
        say(f"asked for, until a leader publishes it: {line}")
    return 0
