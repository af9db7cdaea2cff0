"""``speedtronic key`` and ``speedtronic roster``, on a run on the disk."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from speedtronic.__main__ import main
from speedtronic.shell.keys import Key
from speedtronic.shell.lanes import parse_lane
from speedtronic.testing.runs import made_up_keys, recorded_run

SECRET = bytes(range(32))


@pytest.fixture
def lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A signed run, whose owner's key is among those of this machine."""
    monkeypatch.setenv("SPEEDTRONIC_KEYS", str(tmp_path / "keys"))
    monkeypatch.chdir(tmp_path)
    place = f"dir:{tmp_path / 'lane'}"
    keys = made_up_keys(2)
    recorded_run(parse_lane(place, create=True), rounds=1, nodes=2, keys=keys)
    from hashlib import sha256

    write(tmp_path / "keys" / "node-0.pem", sha256(b"node-0").digest())
    return place


def write(path: Path, secret: bytes) -> None:
    """A key file with a known secret."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(
        Ed25519PrivateKey.from_private_bytes(secret).private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        )
    )
    path.chmod(0o600)


def test_a_key_is_made_and_shown(
    lane: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The public half is the only line on stdout, for scripts."""
    assert 0 == main(["key", "new", "--node", "me"])
    made = capsys.readouterr()
    assert 0 == main(["key", "show", "--node", "me"])
    assert made.out == capsys.readouterr().out
    assert 65 == len(made.out)
    assert str(tmp_path / "keys/me.pem") in made.err
    assert 2 == main(["key", "new", "--node", "me"])
    assert "holds a key already" in capsys.readouterr().err


def test_a_node_is_asked_for_changed_and_taken_back(
    lane: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each builds on what was asked before; nothing is published without a leader."""
    key = Key(SECRET).public
    assert 0 == main(["roster", "add", lane, "me", key, "--max-norm", "2.5"])
    assert "me joins the roster as worker" in capsys.readouterr().out
    assert 0 == main(["roster", "add", lane, "me", key, "--role", "master"])
    assert "me is master now" in capsys.readouterr().out
    assert 0 == main(["roster", "show", lane])
    shown = capsys.readouterr().out
    assert "roster version 1" in shown
    assert "asked for, until a leader publishes it: me joins the roster" in shown
    assert 0 == main(["roster", "add", lane, "me", Key(bytes(32)).public])
    told = capsys.readouterr().out
    assert "me has another key" in told
    assert "worker now" not in told  # what is not said stays as it was
    assert "limit" not in told
    assert 0 == main(["roster", "remove", lane, "me"])
    capsys.readouterr()
    assert 0 == main(["roster", "show", lane, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (1, 5) == (told["roster"]["version"], told["asked"]["version"])
    assert told["roster"]["members"] == told["asked"]["members"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["add", "me", "xyz"], "roster.key: expected a public key"),
        (["add", "../me", "5" * 64], "roster.node: expected 1 to 64 of"),
        (["add", "me", "5" * 64, "--max-norm", "-1"], "roster.max_norm: expected"),
        (["remove", "me"], "me is not in the roster; it has node-0, node-1"),
    ],
)
def test_a_mistake_is_one_line(
    lane: str, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is asked for."""
    before = parse_lane(lane).head()
    assert 2 == main(["roster", words[0], lane, *words[1:]])
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert before == parse_lane(lane).head()


def test_what_the_owner_took_back_does_not_come_again(
    lane: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where somebody puts the lane back to what it was."""
    key, opened = Key(SECRET).public, parse_lane(lane)
    assert 0 == main(["roster", "add", lane, "bob", key])
    old = opened.read("roster.json", str(opened.head()))
    assert 0 == main(["roster", "remove", lane, "bob"])
    opened.commit({"roster.json": old}, parent=opened.head())
    capsys.readouterr()
    assert 0 == main(["roster", "add", lane, "dan", "5" * 64])
    told = capsys.readouterr().out
    assert "The roster is then dan (worker), node-0 (master), node-1 (master)" in told
    assert b"bob" not in opened.read("roster.json", str(opened.head()))


def test_only_the_owner_can_ask(
    lane: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another member's key does not do, nor a machine without the owner's."""
    (tmp_path / "keys" / "node-0.pem").unlink()
    assert 2 == main(["roster", "remove", lane, "node-1"])
    assert "say this on the machine that began the run" in capsys.readouterr().err
    write(tmp_path / "other.pem", SECRET)
    words = ["roster", "remove", lane, "node-1", "--owner-key", "other.pem"]
    assert 2 == main(words)
    assert "its public half is not the owner's" in capsys.readouterr().err


def test_an_open_run_has_no_roster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said how one gets it."""
    place = f"dir:{tmp_path / 'lane'}"
    recorded_run(parse_lane(place, create=True), rounds=1)
    assert 0 == main(["roster", "show", place])
    assert "is open: whoever can write" in capsys.readouterr().out
    assert 2 == main(["roster", "add", place, "me", "5" * 64])
    assert "begins with distributed.trust: signed" in capsys.readouterr().err
