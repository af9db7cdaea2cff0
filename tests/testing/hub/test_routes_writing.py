"""Uploads and commits, through the real client."""

import os

import pytest
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationCopy,
    CommitOperationDelete,
    HfApi,
)
from huggingface_hub.errors import BadRequestError, HfHubHTTPError

from speedtronic.testing.hub import HubEmulator, Limits

RUN = "owner/run"
LARGE = bytes(range(256)) * 12288  # 3 MB


def test_a_large_file_is_uploaded_before_the_commit(hub, client) -> None:
    """And only once, whatever its name."""
    client.commit({"w.safetensors": LARGE})
    client.commit({"again.safetensors": LARGE})
    counts = hub.counts()

    assert (1, 2, 2) == (
        counts.of("lfs-upload"),
        counts.of("lfs-batch"),
        counts.commits,
    )
    assert LARGE == hub.repo(RUN).read("again.safetensors")


def test_a_large_file_is_uploaded_from_a_path(hub, api, tmp_path) -> None:
    """Ahead of its commit, so that only that is repeated."""
    path = tmp_path / "w.bin"
    path.write_bytes(LARGE)
    add = CommitOperationAdd("w.bin", path)
    api.preupload_lfs_files(RUN, [add])
    hub.faults.inject("busy")
    with pytest.raises(HfHubHTTPError):
        api.create_commit(RUN, [add], commit_message="m")
    api.create_commit(RUN, [add], commit_message="m")

    assert LARGE == hub.repo(RUN).read("w.bin")
    assert 1 == hub.counts().of("lfs-upload")


def test_a_file_is_large_by_its_name_or_its_size(hub, client) -> None:
    """The names are in ``.gitattributes``, which is a file like any other."""
    client.commit({".gitattributes": b"*.big filter=lfs diff=lfs merge=lfs -text\n"})
    client.commit({"a.big": b"1", "b.bin": b"2", "c.txt": b"3" * (10 * 2**20 + 1)})
    files = hub.repo(RUN).files()

    assert (True, False, True) == tuple(
        files[name].lfs for name in ("a.big", "b.bin", "c.txt")
    )


def test_files_are_copied_and_deleted_in_one_commit(hub, api, client) -> None:
    """A large one by its sum, a small one by its content."""
    client.commit({"a": b"1", "w.bin": LARGE, "old/1": b"", "old/2": b""})
    operations = [
        CommitOperationCopy("w.bin", "kept/w.bin"),
        CommitOperationCopy("a", "kept/a"),
        CommitOperationDelete("old/"),
        CommitOperationDelete("a"),
    ]
    api.create_commit(RUN, operations, commit_message="m")
    run = hub.repo(RUN)

    assert {".gitattributes", "kept/a", "kept/w.bin", "w.bin"} == set(run.files())
    assert (b"1", LARGE) == (run.read("kept/a"), run.read("kept/w.bin"))
    assert 2 == hub.counts().commits


def test_a_commit_is_made_as_a_whole_or_not_at_all(hub, api, client) -> None:
    """One name that cannot be, and nothing is written."""
    head = client.commit({"a": b"1"})
    adds = [CommitOperationAdd("b", b"2"), CommitOperationAdd("a/c", b"3")]
    with pytest.raises(BadRequestError, match="a is a file and a folder"):
        api.create_commit(RUN, adds, commit_message="m")

    assert head == hub.repo(RUN).head


def test_a_folder_holds_so_many_names() -> None:
    """Then the Hub refuses."""
    with HubEmulator(limits=Limits(folder_files=10)) as hub:
        hub.create_repo(RUN)
        hub.repo(RUN).write({f"n/{number}": b"" for number in range(10)})
        api = HfApi(endpoint=hub.endpoint, token=hub.token)
        with pytest.raises(BadRequestError, match="can only contain up to 10 files"):
            api.upload_file(repo_id=RUN, path_in_repo="n/x", path_or_fileobj=b"1")


def test_private_storage_is_used_up() -> None:
    """Before the upload; a public repository goes on."""
    with HubEmulator(limits=Limits(storage_bytes=1000)) as hub:
        hub.create_repo(RUN)
        api = HfApi(endpoint=hub.endpoint, token=hub.token)

        def upload() -> None:
            content = os.urandom(600)
            api.upload_file(repo_id=RUN, path_in_repo="w.bin", path_or_fileobj=content)

        upload()
        with pytest.raises(HfHubHTTPError, match="storage limit reached") as raised:
            upload()
        hub.repo(RUN).settings.private = False
        upload()

        assert 403 == raised.value.response.status_code
        assert 2 == hub.counts().of("lfs-upload")


def test_what_is_deleted_still_takes_storage(hub, api, client) -> None:
    """A day and a half after a squash it is released."""
    client.commit({"w.bin": LARGE})
    api.delete_file("w.bin", RUN)
    used = [api.repo_info(RUN).used_storage]
    api.super_squash_history(RUN)
    used += [api.repo_info(RUN).used_storage]
    hub.clock.advance(36 * 3600.0)
    used += [api.repo_info(RUN).used_storage]

    assert [len(LARGE), len(LARGE), 0] == used


def test_large_files_are_deleted_for_good(hub, api, client) -> None:
    """The history is written anew: every later commit has another id."""
    before = client.commit({"a": b"1"})
    after = client.commit({"w.bin": LARGE})
    newest = client.commit({"a": b"2"})
    (held,) = api.list_lfs_files(RUN)
    api.permanently_delete_lfs_files(RUN, [held])
    ids = [commit.id for commit in hub.repo(RUN).history]

    assert ("w.bin", len(LARGE)) == (held.filename, held.size)
    assert {".gitattributes", "a"} == set(hub.repo(RUN).files())
    assert (True, False, False) == tuple(x in ids for x in (before, after, newest))
    assert (4, 0) == (len(ids), api.repo_info(RUN).used_storage)


def test_requests_are_counted_by_user_and_kind(naps) -> None:
    """The API and downloads apart, in windows of five minutes."""
    with HubEmulator(limits=Limits(requests=2, resolves=1)) as hub:
        hub.create_repo(RUN)
        api = HfApi(endpoint=hub.endpoint, token=hub.token)
        other = HfApi(endpoint=hub.endpoint, token=False)
        hub.repo(RUN).settings.private = False
        api.repo_info(RUN)
        api.repo_info(RUN)
        with pytest.raises(HfHubHTTPError) as raised:
            api.repo_info(RUN)
        other.repo_info(RUN)
        assert api.file_exists(RUN, ".gitattributes")
        hub.clock.advance(300)
        api.repo_info(RUN)
        headers = raised.value.response.headers

    assert 429 == raised.value.response.status_code
    assert headers["RateLimit"].startswith('"api";r=0;t=')
    assert '"fixed window";"api";q=2;w=300' == headers["RateLimit-Policy"]
