"""Keys: where they lie, who may read them, what they sign."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from speedtronic.errors import ConfigError
from speedtronic.shell import keys
from speedtronic.shell.keys import (
    Key,
    create,
    key_file,
    load,
    load_or_create,
    verifies,
)


def test_a_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask is; so is its folder."""
    path = tmp_path / "keys" / "a.pem"
    before = os.umask(0)
    try:
        key = create(path)
    finally:
        os.umask(before)
    assert [0o600, 0o700] == [
        stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent)
    ]
    assert key.public == load(path).public


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    """It may be the only one of its node."""
    path = tmp_path / "a.pem"
    create(path)
    content = path.read_bytes()
    with pytest.raises(ConfigError, match="holds a key already"):
        create(path)
    assert content == path.read_bytes()
    assert not load_or_create(path).new


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """As ssh does."""
    path = tmp_path / "a.pem"
    create(path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"found mode 0640; say `chmod 600"):
        load(path)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\n", b"\0" * 9000]
)
def test_what_is_no_key_is_told(content: bytes, tmp_path: Path) -> None:
    """In one line, which does not show the content."""
    path = tmp_path / "a.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="an Ed25519 private key in PEM") as told:
        load(path)
    assert 1 == len(str(told.value).splitlines())


def test_another_kind_of_key_is_refused(tmp_path: Path) -> None:
    """It would sign something else."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    path = tmp_path / "a.pem"
    path.write_bytes(
        X25519PrivateKey.generate().private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        )
    )
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="an Ed25519 private key"):
        load(path)


def test_no_key_says_how_to_make_one(tmp_path: Path) -> None:
    """The command stands in the line."""
    with pytest.raises(ConfigError, match="`speedtronic key new` makes one"):
        load(tmp_path / "a.pem")


def test_a_signature_is_of_one_text_by_one_key() -> None:
    """And the same one every time. The vector is the second of RFC 8032, 7.1."""
    key = Key(
        bytes.fromhex(
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
        )
    )
    signature = key.sign(b"\x72")
    assert signature == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert verifies(key.public, signature, b"\x72")
    assert not verifies(key.public, signature, b"\x73")
    assert not verifies(Key(bytes(32)).public, signature, b"\x72")
    assert not verifies(key.public, signature[:-2], b"\x72")
    assert not verifies("zz", signature, b"\x72")


def test_a_key_does_not_show_its_secret() -> None:
    """Neither in a log nor in a traceback."""
    key = Key(bytes(range(32)))
    assert bytes(range(32)).hex() not in repr(key)
    assert repr(key).startswith("Key(")


def test_where_keys_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is no node's leads nowhere."""
    monkeypatch.setenv("SPEEDTRONIC_KEYS", "/somewhere")
    assert Path("/somewhere/a.pem") == key_file("a")
    assert Path("/b/c") == key_file("a", "/b/c")
    monkeypatch.delenv("SPEEDTRONIC_KEYS")
    assert Path.home() / ".speedtronic/keys/a.pem" == key_file("a")
    with pytest.raises(ConfigError):
        key_file("../a")


@pytest.mark.parametrize("sign", [0x00, 0x80])
@pytest.mark.parametrize("small", sorted(keys._SMALL_ORDER), ids=lambda b: b.hex()[:4])
def test_a_key_that_fits_anything_signs_nothing(small: bytes, sign: int) -> None:
    """Without a private half a signature would verify for one text in eight or more."""
    raw = small[:-1] + bytes([small[-1] | sign])
    forged = "01" + "00" * 63  # the neutral point, and zero
    texts = [bytes([n]) for n in range(128)]
    assert not any(verifies(raw.hex(), forged, text) for text in texts)
    public = Ed25519PublicKey.from_public_bytes(raw)
    found = 0
    for text in texts:
        with suppress(InvalidSignature):
            public.verify(bytes.fromhex(forged), text)
            found += 1
    assert found >= 8
