"""Which run a node belongs to, by whose word, and the node's own key.

Kept in the run folder, beside the checkpoints: who has known a run begins no other one,
and who has known its owner believes nobody else.
"""

import logging
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import ConfigError, Corrupt, RunError
from speedtronic.pure.config import Config
from speedtronic.pure.round import plain
from speedtronic.pure.round.header import word_text
from speedtronic.pure.round.roster import key_text
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.atomic import write_bytes
from speedtronic.shell.distributed.identity import node_name
from speedtronic.shell.distributed.lane import lane_name, on_hub
from speedtronic.shell.distributed.trust import Trust
from speedtronic.shell.keys import Key, key_file, load, load_or_create

logger = logging.getLogger(__name__)
MEMBERSHIP = "round.json"  # in the run folder


_READERS: dict[str, plain.Reader[Any]] = {
    "run": word_text,
    "owner": plain.optional(key_text),
    "version": plain.integer(),
}


@attrs.frozen
class Membership:
    """The run that a node belongs to."""

    run: str
    owner: str | None = None  # of a signed run
    version: int = 0  # of the newest roster seen when this was written


def read_membership(run_folder: Path) -> Membership | None:
    """What is kept; None before the node has known a run.

    Raises:
        RunError: it is damaged.
    """
    path = run_folder / MEMBERSHIP
    if not path.exists():
        return None
    try:
        found = {"owner": None, "version": 0} | from_json(path.read_bytes())
        return Membership(**plain.record(found, MEMBERSHIP, _READERS))
    except (Corrupt, OSError, ValueError) as error:
        raise RunError(
            f"{path} is damaged ({error}); it names the run that this node belongs"
            " to: write it anew, or begin another run folder"
        ) from error


def remember(run_folder: Path, run: str, trust: Trust) -> None:
    """Keep the run and its owner.

    Raises:
        StorageError: it cannot be written.
    """
    kept = Membership(run=run, owner=trust.owner, version=trust.version)
    text = f"{to_json(attrs.asdict(kept))}\n"
    write_bytes(run_folder / MEMBERSHIP, text.encode())


def keep_up(run_folder: Path, run: str, trust: Trust) -> None:
    """Keep a newer version of the roster, once there is something kept.

    What was revoked has to stay revoked for the next process, too.

    Raises:
        StorageError: it cannot be written.
    """
    if (run_folder / MEMBERSHIP).exists():
        remember(run_folder, run, trust)


def trust_of(config: Config, known: Membership | None) -> Trust:
    """Whose word counts for a node that starts.

    Raises:
        ConfigError: the config names another owner than the one that is kept.
    """
    section = config.distributed
    if known and section.owner not in (None, known.owner):
        kept = f"owner {known.owner}" if known.owner else "no owner"
        raise ConfigError(
            f"distributed.owner: this node belongs to run {known.run} of {kept}, found "
            f"{section.owner}; if that is right, begin another run folder"
        )
    return Trust(
        owner=section.owner or (known.owner if known else None),
        version=known.version if known else 0,
        open_run=known.run if known and known.owner is None else None,
        signed=section.trust == "signed",
    )


def begins_signed(config: Config) -> bool:
    """Whether a run that this node begins is a signed one.

    >>> from speedtronic.pure.config import Distributed
    >>> begins_signed(Config(distributed=Distributed(lane="hub:lab/run")))
    True
    """
    section = config.distributed
    mode = section.trust or ("signed" if on_hub(lane_name(section)) else "open")
    return mode == "signed"


def node_key(config: Config, trust: Trust, *, member: bool = False) -> Key | None:
    """The key of this node, made when it is needed first; None in an open run.

    Args:
        config: of the node.
        trust: what is known of the run.
        member: it belongs to the run already, with a key that it had.

    Raises:
        ConfigError: its file cannot be used, or a member's is gone.
        StorageError: it cannot be read or written.
    """
    begins = begins_signed(config) and trust.run is None
    if not (trust.owner or trust.signed or begins):
        return None
    name = node_name(config)
    path = key_file(name, config.distributed.key)
    if member and not path.exists():
        raise ConfigError(
            f"{path}: the key of this node is gone; put it back, or make another with "
            "`speedtronic key new` and have the run's owner say `speedtronic roster"
            " add`"
        )
    made = load_or_create(path)
    if made.new:
        logger.info("made a key for node %s in %s", name, made.path)
    return made.key


def founding_keys(config: Config, node: str, key: Key) -> dict[str, str]:
    """The public keys of a run's first roster.

    Beside this node's these are the ones of nodes that the config names and whose keys
    lie beside its own: they are of the same user on the same machine.

    Raises:
        ConfigError: a key that lies there cannot be used.
        StorageError: it cannot be read.
    """
    folder = key_file(node, config.distributed.key).parent
    keys = {node: key.public}
    for name in config.distributed.collaborators:
        path = folder / f"{name}.pem"
        if name != node and path.exists():
            keys[name] = load(path).public
    return keys
