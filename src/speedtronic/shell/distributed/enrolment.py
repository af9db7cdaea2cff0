"""Changing who takes part: the owner puts a signed roster on the lane.

It is a file beside the manifest. The leader publishes it with its next manifest, which
is when it takes effect; until then nothing has changed, and a second change builds on
the first.
"""

from collections.abc import Callable
from pathlib import Path

import attrs

from speedtronic.errors import ConfigError, Conflict, Corrupt, StorageError
from speedtronic.pure.round import names
from speedtronic.pure.round import roster as rosters
from speedtronic.pure.round.roster import Roster
from speedtronic.shell.atomic import write_bytes
from speedtronic.shell.distributed.look import read_view
from speedtronic.shell.distributed.recording import lane_of_a_run
from speedtronic.shell.distributed.trust import Trust, check_roster, signed_roster
from speedtronic.shell.keys import Key, key_file, load
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.regular import read_limited

ATTEMPTS = 8  # others commit to the lane, too


@attrs.frozen(kw_only=True)
class Enrolled:
    """Who takes part in a run, at one revision of its lane."""

    lane: Lane
    revision: str
    run: str
    roster: Roster | None  # None: the run is open
    proposal: Roster | None  # asked for, not published yet


def find_roster(place: str) -> Enrolled:
    """The roster of a run.

    Raises:
        ConfigError: there is no run.
        LaneError: the lane does not answer, or what it holds is not to be believed.
    """
    lane = lane_of_a_run(place)
    revision = lane.head()
    view = None if revision is None else read_view(lane, revision, Trust())
    if revision is None or view is None or view.manifest is None:
        raise ConfigError(f"{place}: the lane holds no run")
    return Enrolled(
        lane=lane,
        revision=revision,
        run=view.manifest.run,
        roster=view.manifest.roster,
        proposal=view.proposal,
    )


def ask(place: str, change: Callable[[Roster], Roster], key: str | None) -> str:
    """Put a changed roster on the lane.

    Args:
        place: what a config calls the lane.
        change: from the newest roster to the next; a ValueError says why it cannot be.
        key: file of the owner's key; None looks among the keys of this machine.

    Returns:
        What was asked for, for a person.

    Raises:
        ConfigError: the run is open, the key is not its owner's, or the change cannot
            be made.
        LaneError: the lane does not answer.
    """
    for attempt in range(ATTEMPTS):
        found = find_roster(place)
        if found.roster is None:
            raise ConfigError(
                f"{place}: the run is open, whoever can write to its lane takes part;"
                " a run with a roster begins with distributed.trust: signed"
            )
        owner, path = owner_key(found.roster.owner, key)
        old = _newest(found.proposal or found.roster, path)
        try:
            new = change(old)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        told = rosters.changes(old, new)
        if not told:
            return "the roster is so already"
        signed = signed_roster(new, owner)
        data = rosters.encode(signed)
        _keep(signed, path)  # before anybody else has it
        line = f"asks for roster version {new.version}"
        try:
            found.lane.commit({names.ROSTER: data}, parent=found.revision, message=line)
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        members = ", ".join(f"{m.node} ({m.role})" for m in new.members)
        return (
            f"{'; '.join(told)}: as soon as a leader publishes it. The roster is then "
            f"{members}"
        )
    raise AssertionError("unreachable")


def _kept(roster: Roster, path: Path) -> Path:
    return path.with_name(f"{path.stem}.{roster.run}.roster.json")


def _newest(roster: Roster, path: Path) -> Roster:
    """The newer of a roster on the lane and the last one that was signed here.

    Whoever can write to the lane can put an older one back, and a change of it would
    let in whom the owner has put out.
    """
    try:
        kept = rosters.parse(
            read_limited(_kept(roster, path), rosters.MAX_ROSTER_BYTES)
        )
        check_roster(kept, str(_kept(roster, path)))
    except FileNotFoundError:
        return roster
    except (OSError, Corrupt) as error:
        raise ConfigError(
            f"{_kept(roster, path)}: {error}; it holds the last roster that was signed "
            "here: compare `speedtronic roster show` with who should take part, then "
            "remove it"
        ) from error
    return kept if rosters.newer(roster, kept) else roster


def _keep(roster: Roster, path: Path) -> None:
    write_bytes(_kept(roster, path), rosters.encode(roster))


def owner_key(public: str, given: str | None) -> tuple[Key, Path]:
    """The private key of a run's owner, and its file.

    Raises:
        ConfigError: it is not here.
        StorageError: a key file cannot be read.
    """
    if given is not None:
        key = load(Path(given).expanduser())
        if key.public != public:
            raise ConfigError(f"{given}: its public half is not the owner's, {public}")
        return key, Path(given).expanduser()
    folder, unread = key_file("any").parent, []
    for path in sorted(folder.glob("*.pem")):
        try:
            key = load(path)
        except (ConfigError, StorageError) as error:
            unread.append(str(error))
            continue
        if key.public == public:
            return key, path
    raise ConfigError(
        f"the run's owner has the key {public}, and it is not in {folder}; say this on"
        " the machine that began the run, or name its file with --owner-key"
        + "".join(f"; {line}" for line in unread[:3])
    )
