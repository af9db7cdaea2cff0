"""A node's key: an Ed25519 pair in a file of its owner's alone.

The signatures are those of RFC 8032, made by the `cryptography` library. Every kind of
text that is signed begins with its own words, so that a signature of one kind is never
one of another.

The private half never leaves its file: no log, no message and no error shows it.
"""

import os
import stat
from pathlib import Path

import attrs

from speedtronic.errors import ConfigError, StorageError
from speedtronic.pure.round.names import check_node
from speedtronic.shell.atomic import explained
from speedtronic.shell.modes import PRIVATE_FILE, PRIVATE_FOLDER, make_folder
from speedtronic.shell.regular import open_regular

VARIABLE = "SPEEDTRONIC_KEYS"
# Encodings of all points whose order divides 8, but for the sign of x; the last three
# are the same as others modulo p.
_SMALL_ORDER = {
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
}
MAX_BYTES = 4096


class Key:
    """The key of a node; see `load` and `create`.

    Args:
        private: 32 bytes.

    >>> Key(bytes(32)).public[:16]
    '3b6a27bcceb6a42d'
    """

    def __init__(self, private: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._private = Ed25519PrivateKey.from_private_bytes(private)

    @property
    def public(self) -> str:
        """The public half in 64 hex digits, as a roster holds it."""
        return self._private.public_key().public_bytes_raw().hex()

    def sign(self, text: bytes) -> str:
        """The signature of a text, 128 hex digits; the same one every time."""
        return self._private.sign(text).hex()

    def __repr__(self) -> str:
        return f"Key({self.public[:16]}...)"


def verifies(key: str, signature: str | None, text: bytes) -> bool:
    """Whether a public key signed a text; anything malformed did not.

    Keys of small order are refused: a signature that fits them is no proof of anything
    (C. Chalkias, F. Garillot, V. Nikolaenko, Taming the many EdDSAs, 2020, section 2).

    >>> verifies("00" * 32, "00" * 64, b"x"), verifies("", None, b"x")
    (False, False)
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        raw = bytes.fromhex(key)
        if raw[:-1] + bytes(b & 0x7F for b in raw[-1:]) in _SMALL_ORDER:
            return False
        public = Ed25519PublicKey.from_public_bytes(raw)
        public.verify(bytes.fromhex(signature or ""), text)
    except (ValueError, InvalidSignature):
        return False
    return True


def key_file(node: str, given: str | None = None) -> Path:
    """Where the key of a node lies.

    Args:
        node: its name.
        given: a file that the config or the command line names.

    Raises:
        ConfigError: the name cannot be one of a node.
    """
    if given:
        return Path(given).expanduser()
    try:
        check_node(node)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    folder = os.environ.get(VARIABLE) or "~/.speedtronic/keys"
    return Path(folder).expanduser() / f"{node}.pem"


def create(path: Path) -> Key:
    """Make a key, in a new file that only its owner may read.

    Raises:
        ConfigError: the file exists.
        StorageError: it cannot be written.
    """
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    data = private.private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )
    with explained(path):
        make_folder(path.parent, PRIVATE_FOLDER)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        except FileExistsError:
            raise ConfigError(
                f"{path} holds a key already; keep it, or move it away first"
            ) from None
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), PRIVATE_FILE)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    return Key(private.private_bytes_raw())


def load(path: Path) -> Key:
    """Read a key.

    Raises:
        ConfigError: there is none, others may read it, or it is no such key.
        StorageError: it cannot be read.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        with open_regular(path) as file:
            found = os.fstat(file.fileno())
            data = file.read(MAX_BYTES)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: there is no key; `speedtronic key new` makes one"
        ) from None
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{path}: it belongs to another user")
    if mode & 0o077:
        raise ConfigError(
            f"{path}: expected a file that only its owner may read, found mode "
            f"{mode:04o}; say `chmod 600 {path}`, or make a new key if others saw it"
        )
    try:
        private = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise ConfigError(f"{path}: expected an Ed25519 private key in PEM")
    return Key(private.private_bytes_raw())


@attrs.frozen
class Made:
    """A key, and whether it is a new one."""

    key: Key
    path: Path
    new: bool


def load_or_create(path: Path) -> Made:
    """A node's key, made if there is none yet.

    Raises:
        ConfigError: the file is not a key that can be used.
        StorageError: it cannot be read or written.
    """
    if path.exists() or path.is_symlink():
        return Made(load(path), path, new=False)
    try:
        return Made(create(path), path, new=True)
    except ConfigError:  # another process of this node came first
        return Made(load(path), path, new=False)
