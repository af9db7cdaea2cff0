"""What a node keeps of the run that it belongs to."""

from pathlib import Path

import attrs
import pytest

from speedtronic.errors import ConfigError, Corrupt, RunError
from speedtronic.pure.config import Config, Distributed
from speedtronic.pure.round.roster import Member, added
from speedtronic.shell.distributed.membership import (
    MEMBERSHIP,
    Membership,
    begins_signed,
    founding_keys,
    keep_up,
    node_key,
    read_membership,
    remember,
    trust_of,
)
from speedtronic.shell.distributed.trust import Trust, signed_manifest, signed_roster
from speedtronic.shell.keys import create
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import made_up_keys, recorded_run

RUN, OWNER = "ab" * 8, "c" * 64


def test_run_owner_and_version_are_kept(tmp_path: Path) -> None:
    """And a folder without them belongs to no run."""
    assert read_membership(tmp_path) is None
    remember(tmp_path, RUN, Trust(owner=OWNER, version=3))
    assert Membership(RUN, OWNER, 3) == read_membership(tmp_path)


def test_a_file_of_an_open_run_has_no_owner(tmp_path: Path) -> None:
    """Also one that an earlier version wrote."""
    (tmp_path / MEMBERSHIP).write_text(f'{{"run":"{RUN}"}}')
    assert Membership(RUN) == read_membership(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"run":"x","version":"?"}'])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    """A guess would be another run."""
    (tmp_path / MEMBERSHIP).write_text(text)
    with pytest.raises(RunError, match="is damaged"):
        read_membership(tmp_path)


def test_a_newer_roster_outlives_the_process(tmp_path: Path) -> None:
    """What was revoked while a node ran is revoked when it starts again."""
    keys = made_up_keys(2)
    start = recorded_run(MemoryLane(), rounds=1, nodes=2, keys=keys)
    assert start.roster
    trust = Trust()
    trust.learned = lambda run: keep_up(tmp_path, run, trust)
    trust.manifest(signed_manifest(start, keys[start.lease.node]))
    assert read_membership(tmp_path) is None  # it has not joined yet
    remember(tmp_path, start.run, trust)
    member = Member(node="more", key="5" * 64, role="worker")
    roster = signed_roster(added(start.roster, member), keys["node-0"])
    later = attrs.evolve(start, roster=roster)
    trust.manifest(signed_manifest(later, keys[start.lease.node]))
    assert Membership(start.run, trust.owner, 2) == read_membership(tmp_path)


@pytest.mark.parametrize(
    ("trust", "lane", "begins"),
    [
        (None, "dir:/x", False),
        (None, "hub:a/b", True),
        ("open", "hub:a/b", False),
        ("signed", "dir:/x", True),
    ],
)
def test_how_a_run_begins(trust: str | None, lane: str, begins: bool) -> None:
    """Signed on the Hub, open in a folder, unless the config says otherwise."""
    config = Config(distributed=Distributed(lane=lane, trust=trust))
    assert begins == begins_signed(config)
    assert (trust == "signed") == trust_of(config, None).signed


def test_what_is_kept_goes_before_what_is_seen() -> None:
    """The config's word goes before both."""
    known = Membership(RUN, OWNER, 4)
    config = Config(distributed=Distributed())
    assert (OWNER, 4) == (
        trust_of(config, known).owner,
        trust_of(config, known).version,
    )
    told = Config(distributed=Distributed(owner="d" * 64))
    assert "d" * 64 == trust_of(told, None).owner
    for kept in (known, Membership(RUN)):  # whatever a lane says now
        with pytest.raises(ConfigError, match="begin another run folder"):
            trust_of(told, kept)


def test_an_open_run_gets_no_owner(tmp_path: Path) -> None:
    """Whoever can write to its lane would be that."""
    keys = made_up_keys(1)
    start = recorded_run(MemoryLane(), rounds=1, nodes=1, keys=keys)
    trust = trust_of(Config(), Membership(start.run))
    with pytest.raises(Corrupt, match="was open, here it has an owner"):
        trust.manifest(signed_manifest(start, keys["node-0"]))


def test_a_key_that_is_gone_is_not_replaced_in_silence(tmp_path: Path) -> None:
    """Its roster has the old one, and whoever leads with another is not believed."""
    section = Distributed(node_id="a", key=str(tmp_path / "a.pem"))
    with pytest.raises(ConfigError, match="the key of this node is gone"):
        node_key(Config(distributed=section), Trust(owner=OWNER), member=True)


def test_a_key_is_made_when_it_is_needed(tmp_path: Path) -> None:
    """Never for an open run."""
    path = tmp_path / "a.pem"
    config = Config(distributed=Distributed(node_id="a", key=str(path)))
    begins = Config(distributed=Distributed(node_id="a", key=str(path), lane="hub:a/b"))
    assert node_key(config, Trust()) is None
    assert node_key(begins, Trust(run=RUN)) is None
    assert not path.exists()
    key = node_key(begins, Trust())
    again = node_key(config, Trust(owner=OWNER))
    assert key and again
    assert key.public == again.public


def test_the_first_roster_has_the_nodes_of_the_same_user(tmp_path: Path) -> None:
    """Whose keys lie beside the own one; nobody else's is known."""
    own, other = create(tmp_path / "a.pem"), create(tmp_path / "b.pem")
    create(tmp_path / "stranger.pem")
    section = Distributed(
        node_id="a", collaborators=("b", "c"), key=str(tmp_path / "a.pem")
    )
    found = founding_keys(Config(distributed=section), "a", own)
    assert {"a": own.public, "b": other.public} == found


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "[" * 100_000,
        f'{{"run":"{RUN}","version":-1}}',
        f'{{"run":"{RUN}","owner":"me"}}',
        '{"run":"../x"}',
        f'{{"run":"{RUN}","more":1}}',
    ],
)
def test_a_membership_of_another_form_is_damaged(tmp_path: Path, text: str) -> None:
    """Taken for none, the node could begin a second run."""
    (tmp_path / MEMBERSHIP).write_text(text)
    with pytest.raises(RunError, match=r"round\.json is damaged"):
        read_membership(tmp_path)
