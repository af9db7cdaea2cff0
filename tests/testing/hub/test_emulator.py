"""The emulator as a whole: its life, its folder, its accounts, its book-keeping."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from speedtronic.testing.hub import HubEmulator

try:
    import httpx2 as httpx
except ImportError:  # the client's 1.x
    import httpx  # type: ignore[no-redef]

RUN = "owner/run"


def test_what_was_written_is_there_the_next_time(tmp_path) -> None:
    """Commits, large files, branches and tags; the token is the same too."""
    with HubEmulator(folder=tmp_path) as hub:
        token = hub.token
        api = HfApi(endpoint=hub.endpoint, token=token)
        api.create_repo(RUN, private=True)
        adds = [CommitOperationAdd("a", b"1"), CommitOperationAdd("w.bin", b"\0" * 999)]
        first = api.create_commit(RUN, adds, commit_message="one").oid
        api.create_tag(RUN, tag="kept")
        second = api.upload_file(
            repo_id=RUN, path_in_repo="a", path_or_fileobj=b"2"
        ).oid
    with HubEmulator(folder=tmp_path) as hub:
        api = HfApi(endpoint=hub.endpoint, token=token)
        info = api.repo_info(RUN)
        run = hub.repo(RUN)

        assert (second, True, 999) == (info.sha, info.private, info.used_storage)
        assert [second, first] == [commit.id for commit in run.history[:2]]
        assert (b"1", b"2") == (run.read("a", "kept"), run.read("a"))
        assert b"\0" * 999 == run.read("w.bin", first)


def test_a_folder_has_one_emulator(tmp_path) -> None:
    """Two would write over each other's commits."""
    with HubEmulator(folder=tmp_path):
        with pytest.raises(OSError, match="another emulator uses it"):
            HubEmulator(folder=tmp_path).__enter__()
    with HubEmulator(folder=tmp_path) as hub:
        assert hub.counts().total == 0


def test_a_repository_that_is_deleted_leaves_nothing(tmp_path) -> None:
    """Neither on the disk nor in the listing."""
    with HubEmulator(folder=tmp_path) as hub:
        api = HfApi(endpoint=hub.endpoint, token=hub.token)
        api.create_repo(RUN)
        api.delete_repo(RUN)
        with pytest.raises(RepositoryNotFoundError):
            api.repo_info(RUN)

        assert [] == list((tmp_path / "owner").iterdir())


def test_an_outage_is_over_when_it_ends(hub, api, tmp_path, naps) -> None:
    """Nobody listened; then the same Hub does, at the same address."""
    hub.repo(RUN).write({"a": b"1"})
    with hub.outage():
        with pytest.raises(httpx.ConnectError):
            api.repo_info(RUN)
        with pytest.raises(LocalEntryNotFoundError):
            api.hf_hub_download(RUN, "a", cache_dir=tmp_path)

    assert hub.repo(RUN).head == api.repo_info(RUN).sha


def test_a_client_that_waits_is_let_go_at_the_end() -> None:
    """The block ends although an answer is hours away."""
    arrived = Event()
    with ThreadPoolExecutor(1) as thread:
        with HubEmulator(verbose=lambda entry: arrived.set()) as hub:
            hub.create_repo(RUN)
            hub.faults.inject("stall", seconds=3600.0)
            api = HfApi(endpoint=hub.endpoint, token=hub.token)
            waiting = thread.submit(api.repo_info, RUN)
            arrived.wait()
        with pytest.raises(httpx.TransportError):
            waiting.result()


def test_an_answer_takes_its_time_by_the_seed() -> None:
    """Each within the bounds, and the same again."""
    seen = []
    for _ in range(2):
        with HubEmulator(latency=(0.01, 0.02), seed=3) as hub:
            api = HfApi(endpoint=hub.endpoint, token=hub.token)
            api.whoami()
            api.create_repo(RUN)
            seen += [entry.seconds >= 0.01 for entry in hub.log]

    assert [True] * 4 == seen


def test_another_process_finds_it_by_its_environment(hub) -> None:
    """And is the user of the token."""
    code = "from huggingface_hub import whoami; print(whoami()['name'])"
    environment = {**os.environ, **hub.environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )

    assert ("owner\n", 0) == (done.stdout, done.returncode)


def test_tokens_look_real_and_are_in_no_log(hub, api) -> None:
    """So that a test that looks for a leak has something to find."""
    api.whoami()

    assert hub.token.startswith("hf_") and len(hub.token) == 37
    assert [] == [entry for entry in hub.log if hub.token in repr(entry)]


def test_requests_are_counted_by_endpoint_and_status(hub, api, client) -> None:
    """And by the fault they met."""
    hub.faults.inject("conflict")
    with pytest.raises(HfHubHTTPError):
        client.commit({"a": b"1"})
    client.commit({"a": b"1"})
    counts = hub.counts()

    assert (4, 1, 1) == (counts.total, counts.commits, counts.conflicts)
    assert {("preupload", 200): 2, ("commit", 412): 1, ("commit", 200): 1} == (
        counts.requests
    )
    assert {"conflict": 1} == counts.faults
    assert [0, 1, 2, 3] == [entry.number for entry in hub.log]


def test_a_token_that_expired_is_told_from_a_repository_that_is_not_there(hub) -> None:
    """By the status, and by the class."""
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    with pytest.raises(RepositoryNotFoundError) as raised:
        api.repo_info("owner/none")
    assert 404 == raised.value.response.status_code
    hub.expire_token(hub.token)
    with pytest.raises(HfHubHTTPError) as refused:
        api.repo_info(RUN)

    assert 401 == refused.value.response.status_code
    assert not isinstance(refused.value, RepositoryNotFoundError)


def test_a_repository_under_a_users_name_has_one_writer(hub) -> None:
    """To another user a private one is not there, and a public one is read only."""
    other = HfApi(endpoint=hub.endpoint, token=hub.add_token("alice", "write"))
    with pytest.raises(RepositoryNotFoundError):
        other.repo_info(RUN)
    hub.repo(RUN).settings.private = False
    other.repo_info(RUN)
    with pytest.raises(HfHubHTTPError) as raised:
        other.auth_check(RUN, write=True)

    assert 403 == raised.value.response.status_code


def test_an_organization_has_many_writers(hub) -> None:
    """As far as their tokens go."""
    hub.create_repo("team/run")
    writer = HfApi(endpoint=hub.endpoint, token=hub.add_token("alice", "write"))
    reader = HfApi(endpoint=hub.endpoint, token=hub.add_token("bob", "read"))
    writer.auth_check("team/run", write=True)
    reader.auth_check("team/run")
    with pytest.raises(HfHubHTTPError) as raised:
        reader.auth_check("team/run", write=True)

    assert 403 == raised.value.response.status_code
    assert ["team"] == [each["name"] for each in writer.whoami()["orgs"]]


def test_nobody_in_particular_sees_public_repositories_only(hub) -> None:
    """Without a token a private one is a 401."""
    nobody = HfApi(endpoint=hub.endpoint, token=False)
    with pytest.raises(RepositoryNotFoundError) as raised:
        nobody.repo_info(RUN)
    hub.repo(RUN).settings.private = False

    assert 401 == raised.value.response.status_code
    assert RUN == nobody.repo_info(RUN).id
