"""Listings and contents, through the real client."""

import hashlib

import pytest
from huggingface_hub import get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import RemoteEntryNotFoundError

from speedtronic.testing.hub.values import git_oid

RUN = "owner/run"
LARGE = bytes(range(256)) * 12288  # 3 MB


def test_a_listing_goes_on_beyond_a_page(hub, api) -> None:
    """One thousand entries each, at one revision whatever happens meanwhile."""
    names = [f"n/{number:04}" for number in range(2100)]
    head = hub.repo(RUN).write(dict.fromkeys(names, b""))
    hub.repo(RUN).write({"n/2100": b""})
    found = [x.path for x in api.list_repo_tree(RUN, "n", revision=head)]

    assert names == found
    assert 3 == hub.counts().of("tree", 200)


def test_a_listing_with_all_details_has_smaller_pages(hub, api) -> None:
    """Fifty each."""
    hub.repo(RUN).write({f"n/{number}": b"" for number in range(60)})

    assert 60 == len(list(api.list_repo_tree(RUN, "n", expand=True)))
    assert 2 == hub.counts().of("tree")


def test_a_listing_is_of_one_folder_or_of_all_below(hub, api) -> None:
    """Folders are entries too."""
    hub.repo(RUN).write({"a/1": b"", "a/b/2": b"", "c": b""})
    flat = {x.path for x in api.list_repo_tree(RUN, "a")}
    deep = {x.path for x in api.list_repo_tree(RUN, "a", recursive=True)}

    assert ({"a/1", "a/b"}, {"a/1", "a/b", "a/b/2"}) == (flat, deep)
    with pytest.raises(RemoteEntryNotFoundError):
        list(api.list_repo_tree(RUN, "none"))


def test_facts_of_paths_leave_out_what_is_not_there(api, client) -> None:
    """Sums are git's for small files and sha256 for large ones."""
    client.commit({"d/a": b"1", "w.bin": LARGE})
    small, large, folder = api.get_paths_info(RUN, ["d/a", "none", "w.bin", "d"])

    assert ("d/a", git_oid(b"1"), None) == (small.path, small.blob_id, small.lfs)
    assert hashlib.sha256(LARGE).hexdigest() == large.lfs.sha256
    assert ("d", False) == (folder.path, hasattr(folder, "size"))


@pytest.mark.parametrize(
    ("name", "content"),
    [("a b/+ä.txt", b"small"), ("w.bin", LARGE), ("empty.bin", b"")],
    ids=["small", "large", "empty"],
)
def test_what_was_committed_is_read(client, name, content) -> None:
    """By name and revision."""
    head = client.commit({name: content})

    assert content == client.read(name, head)


def test_one_request_tells_the_head_and_the_sum(hub, api, client) -> None:
    """The cheap way to ask for news, which also works where there is no file."""
    head = client.commit({"a": b"1", "w.bin": LARGE})

    def ask(name: str):
        url = hf_hub_url(RUN, name, endpoint=hub.endpoint)
        return get_hf_file_metadata(url, token=hub.token)

    small, large = ask("a"), ask("w.bin")
    with pytest.raises(RemoteEntryNotFoundError) as raised:
        ask("none")

    assert (head, git_oid(b"1"), 1) == (small.commit_hash, small.etag, small.size)
    assert hashlib.sha256(LARGE).hexdigest() == large.etag
    assert len(LARGE) == large.size
    assert head == raised.value.response.headers["X-Repo-Commit"]


def test_the_history_is_listed_newest_first(api, client) -> None:
    """With who and when."""
    heads = [client.commit({"a": b"%d" % number}) for number in range(3)]
    commits = api.list_repo_commits(RUN)

    assert heads[::-1] == [commit.commit_id for commit in commits[:3]]
    assert ["owner"] == commits[0].authors
    assert commits[0].created_at >= commits[2].created_at
