"""What surprises the users of the real client, had again on loopback."""

import json
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RevisionNotFoundError,
)

from speedtronic.testing.hub import HubEmulator, Limits

RUN = "owner/run"


def status_of(raised: pytest.ExceptionInfo[HfHubHTTPError]) -> int:
    return int(raised.value.response.status_code)


def test_a_commit_of_what_is_there_is_never_sent(hub, client) -> None:
    """So its parent is not compared: two writers count to one and both are glad."""
    start = client.commit({"count.json": b'{"v": 0}'})
    first = client.commit({"count.json": b'{"v": 1}'}, parent=start)

    assert first == client.commit({"count.json": b'{"v": 1}'}, parent=start)
    assert 2 == hub.counts().commits


def test_a_large_file_that_is_there_is_left_out_too(hub, client) -> None:
    """By its sha256, where a small one goes by git's sha1."""
    start = client.commit({"w.safetensors": b"1234"})

    assert start == client.commit({"w.safetensors": b"1234"}, parent=start[:7])


def test_bytes_that_are_unique_make_it_a_compare_and_swap(hub, client) -> None:
    """The same race with a nonce in it has a loser."""
    start = client.commit({"count.json": b'{"v": 0}'})
    client.commit({"count.json": b'{"v": 1, "nonce": 1}'}, parent=start)
    with pytest.raises(HfHubHTTPError) as raised:
        client.commit({"count.json": b'{"v": 1, "nonce": 2}'}, parent=start)

    assert 412 == status_of(raised)
    assert HfHubHTTPError is type(raised.value)


def test_eight_writers_with_a_nonce_lose_no_update(hub, client) -> None:
    """Forty increments are forty."""
    client.commit({"count.json": json.dumps({"v": 0}).encode()})

    def increment(_: int) -> None:
        while True:
            head = hub.repo(RUN).head
            value = json.loads(hub.repo(RUN).read("count.json", head))["v"] + 1
            content = json.dumps({"v": value, "nonce": uuid4().hex}).encode()
            try:
                client.commit({"count.json": content}, parent=head)
                return
            except HfHubHTTPError as error:
                assert 412 == error.response.status_code

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(increment, range(40)))

    assert 40 == json.loads(hub.repo(RUN).read("count.json"))["v"]


@pytest.mark.parametrize("kind", ["error-after-applying", "dropped-reply"])
def test_a_commit_may_have_been_made_though_it_failed(hub, client, kind) -> None:
    """And the client does not try again by itself."""
    before = client.head
    hub.faults.inject(kind)
    with pytest.raises(Exception) as raised:
        client.commit({"a": b"1"})

    assert not isinstance(raised.value, AssertionError)
    assert b"1" == hub.repo(RUN).read("a")
    assert before == hub.repo(RUN).history[1].id
    assert 1 == hub.counts().of("commit")


def test_fresh_operations_repeat_a_commit_without_harm(hub, client) -> None:
    """They are seen to be there already."""
    hub.faults.inject("error-after-applying")
    with pytest.raises(HfHubHTTPError):
        client.commit({"a": b"1"})

    assert hub.repo(RUN).head == client.commit({"a": b"1"})


def test_the_same_operations_lose_against_themselves(hub, api, client) -> None:
    """They remember what was there before, and meet their own commit."""
    start = client.head
    adds = [CommitOperationAdd("a", b"1")]
    hub.faults.inject("error-after-applying")
    for expected in (500, 412):
        with pytest.raises(HfHubHTTPError) as raised:
            api.create_commit(RUN, adds, commit_message="m", parent_commit=start)
        assert expected == status_of(raised)


def test_a_deletion_that_is_repeated_finds_nothing(hub, api, client) -> None:
    """Which means that it was done."""
    client.commit({"a": b"1"})
    hub.faults.inject("error-after-applying")
    with pytest.raises(HfHubHTTPError):
        api.create_commit(RUN, [CommitOperationDelete("a")], commit_message="m")
    with pytest.raises(RemoteEntryNotFoundError):
        api.create_commit(RUN, [CommitOperationDelete("a")], commit_message="m")


def test_a_commit_may_be_made_after_one_has_looked(hub, client) -> None:
    """The server was slow, not dead."""
    hub.faults.inject("late", requests=2)
    with pytest.raises(HfHubHTTPError) as raised:
        client.commit({"a": b"1"})
    before = client.head

    assert 504 == status_of(raised)
    assert before != client.head
    assert b"1" == hub.repo(RUN).read("a")


def test_an_outage_shows_the_old_file_as_if_it_were_new(hub, client, naps) -> None:
    """Reading a branch falls back to the cache without a word."""
    client.commit({"a": b"old"})
    client.read("a")
    client.commit({"a": b"new"})
    hub.faults.inject("unavailable", times=None, where="resolve-*")

    assert b"old" == client.read("a")


def test_a_head_that_moves_spoils_the_cache(hub, client) -> None:
    """HEAD and GET see two commits, and the first is cached with the second's bytes."""
    first = client.commit({"a": b"old"})
    hub.faults.inject("moved-head", files={"a": b"new"})

    assert b"new" == client.read("a")
    assert b"new" == client.read("a", first)
    assert b"old" == hub.repo(RUN).read("a", first)


def test_an_outage_is_a_kind_of_entry_not_found(hub, client, naps) -> None:
    """A file that is nowhere in the cache, and one that is nowhere at all."""
    hub.faults.inject("unavailable", times=None)
    with pytest.raises(LocalEntryNotFoundError):
        client.read("a")
    hub.faults.clear()
    with pytest.raises(RemoteEntryNotFoundError):
        client.read("a")


def test_a_squash_leaves_a_reader_without_its_revision(hub, api, client) -> None:
    """Right between two reads of one revision."""
    revision = client.commit({"a": b"1", "b": b"2"})
    client.read("a", revision)
    api.super_squash_history(RUN)
    with pytest.raises(RevisionNotFoundError):
        client.read("b", revision)

    assert b"2" == client.read("b")
    assert 1 == len(api.list_repo_commits(RUN))


def test_a_parent_that_was_squashed_is_stale(hub, api, client) -> None:
    """Though no file has changed."""
    head = client.commit({"a": b"1"})
    api.super_squash_history(RUN)
    with pytest.raises(HfHubHTTPError) as raised:
        client.commit({"a": b"2"}, parent=head)

    assert 412 == status_of(raised)


def test_a_token_that_may_only_propose_loses_for_ever(hub, client) -> None:
    """It looks like a race; only the check of rights tells."""
    token = hub.add_token("owner", "pull-request")
    api = HfApi(endpoint=hub.endpoint, token=token)
    for attempt in range(3):
        with pytest.raises(HfHubHTTPError) as raised:
            add = CommitOperationAdd("a", b"%d" % attempt)
            api.create_commit(RUN, [add], commit_message="m")
        assert 412 == status_of(raised)
    with pytest.raises(HfHubHTTPError) as raised:
        api.auth_check(RUN, write=True)

    assert 403 == status_of(raised)


def test_a_lagging_head_makes_a_writer_lose_again(hub, client) -> None:
    """What was read is not what is compared; branches may lag apart."""
    client.commit({"a": b"1"})
    hub.faults.inject("lagging-head", where="info", times=2)
    for attempt in (b"2", b"3"):
        with pytest.raises(HfHubHTTPError) as raised:
            client.commit({"a": attempt}, parent=client.head)
        assert 412 == status_of(raised)
    refs = client.api.list_repo_refs(RUN)

    assert hub.repo(RUN).head == refs.branches[0].target_commit


def test_a_lagging_head_may_be_one_that_was_squashed(hub, api, client) -> None:
    """Then the revision that was just told is not there."""
    client.commit({"a": b"1"})
    api.super_squash_history(RUN)
    hub.faults.inject("lagging-head", where="info")
    told = client.head
    with pytest.raises(RevisionNotFoundError):
        client.read("a", told)


def test_the_commit_quota_tells_its_time_in_words_only(naps) -> None:
    """The headers are of another quota; an hour later it is over."""
    with HubEmulator(limits=Limits(commits_per_hour=2)) as hub:
        hub.create_repo(RUN)
        api = HfApi(endpoint=hub.endpoint, token=hub.token)

        def commit(content: bytes) -> None:
            add = CommitOperationAdd("a", content)
            api.create_commit(RUN, [add], commit_message="m")

        commit(b"1")
        hub.clock.advance(1200)
        commit(b"2")
        with pytest.raises(HfHubHTTPError) as raised:
            commit(b"3")
        told = raised.value
        hub.clock.advance(2400)
        commit(b"3")

    assert 429 == told.response.status_code
    assert "in 40 minutes" in str(told.server_message)
    assert '"api";r=949;t=271' == told.response.headers["RateLimit"]


def test_commits_that_meet_find_the_repository_busy() -> None:
    """With a lock that lasts, one of two gets a 409 and has lost nothing."""
    with HubEmulator(limits=Limits(commit_lock_s=0.2)) as hub:
        hub.create_repo(RUN)
        api = HfApi(endpoint=hub.endpoint, token=hub.token)

        def commit(number: int) -> int:
            add = CommitOperationAdd(f"{number}", b"1")
            try:
                api.create_commit(RUN, [add], commit_message="m")
                return 200
            except HfHubHTTPError as error:
                return int(error.response.status_code)

        with ThreadPoolExecutor(4) as threads:
            found = sorted(threads.map(commit, range(4)))

    assert {200, 409} == set(found)
