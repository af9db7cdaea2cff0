"""Options of several commands that speak of keys, each said once.

Functions, since every options class needs fields of its own.
"""

from typing import Any

from speedtronic.shell.options import option


def node_option() -> Any:
    """Whose key."""
    return option(
        "the node's name (default: this machine's)", default=None, metavar="NAME"
    )


def key_file_option() -> Any:
    """Where that key is."""
    return option(
        "file of the key (default: ~/.speedtronic/keys/NAME.pem)",
        default=None,
        metavar="FILE",
    )


def owner_key_option() -> Any:
    """What a roster is signed with."""
    return option(
        "file of the owner's private key (default: among the keys of this machine)",
        default=None,
        metavar="FILE",
    )


def owner_option() -> Any:
    """Whose run it has to be."""
    return option(
        "public key of the run's owner, as you were told it: believe no other",
        default=None,
        metavar="KEY",
    )
