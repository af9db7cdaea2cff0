"""History and storage of a repository: what housekeeping asks of the Hub."""

from datetime import datetime, timedelta

from speedtronic.shell.lanes.hub.client import BRANCH, Client
from speedtronic.shell.lanes.hub.tree import Tree


def squash(client: Client, message: str) -> None:
    """Make the head of the branch its only commit."""
    client.run(
        "api",
        lambda: client.api.super_squash_history(
            client.repository, branch=BRANCH, commit_message=message
        ),
    )


def release(client: Client, tree: Tree, kept_s: float) -> int:
    """Delete large files that ``tree`` does not name; return how many bytes they had.

    Ages are differences between the Hub's own dates, so no clock of ours counts.
    """
    needed = {entry.oid for entry in tree.entries.values() if entry.large}

    def delete() -> int:
        files = list(client.api.list_lfs_files(client.repository))
        newest = max((file.pushed_at for file in files), default=datetime.min)
        gone = [
            file
            for file in files
            if file.oid not in needed
            and newest - file.pushed_at > timedelta(seconds=kept_s)
        ]
        if gone:
            # History is not rewritten: that would give every revision another name.
            client.api.permanently_delete_lfs_files(
                client.repository, gone, rewrite_history=False
            )
        return sum(file.size for file in gone)

    return client.run("api", delete)
