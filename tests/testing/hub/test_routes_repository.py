"""Repositories as a whole, through the real client."""

import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError, RevisionNotFoundError

from speedtronic.testing.hub import HubEmulator, Limits

RUN = "owner/run"


def status(call, *arguments, **options) -> int:
    with pytest.raises(HfHubHTTPError) as raised:
        call(*arguments, **options)
    return int(raised.value.response.status_code)


def test_a_new_repository_has_a_first_commit(hub, api) -> None:
    """So it always has a head."""
    api.create_repo("owner/new", private=True)
    commits = api.list_repo_commits("owner/new")

    assert ["initial commit"] == [commit.title for commit in commits]
    assert [".gitattributes"] == api.list_repo_files("owner/new")


def test_a_repository_is_made_once(hub, api) -> None:
    """The second time is a 409 that still tells where it is."""
    url = api.create_repo(RUN, exist_ok=True)

    assert (409, f"{hub.endpoint}/{RUN}") == (status(api.create_repo, RUN), str(url))


@pytest.mark.parametrize("name", ["alice/run", "nowhere/run"])
def test_a_repository_under_another_name_is_refused(hub, api, name) -> None:
    """Of a user, and of an organization that is not there."""
    hub.add_token("alice", "write")

    assert 403 == status(api.create_repo, name)


def test_a_read_token_makes_no_repository(hub) -> None:
    """Not even where its user may."""
    api = HfApi(endpoint=hub.endpoint, token=hub.read_token)

    assert 403 == status(api.create_repo, "owner/new")


def test_facts_of_files_are_given_on_demand(api, client) -> None:
    """Sizes and sums only if asked for."""
    head = client.commit({"a": b"123", "w.bin": b"4567"})
    brief = api.repo_info(RUN, revision=head).siblings
    full = {f.rfilename: f for f in api.repo_info(RUN, files_metadata=True).siblings}

    assert [None, None, None] == [file.size for file in brief]
    assert (3, None, 4) == (full["a"].size, full["a"].lfs, full["w.bin"].lfs.size)


def test_an_answer_can_be_cut_down(hub, api) -> None:
    """To the head, for one that asks often."""
    info = api.repo_info(RUN, expand=["sha"])

    assert (hub.repo(RUN).head, None, None) == (info.sha, info.siblings, info.private)


def test_settings_are_changed(hub, api) -> None:
    """And seen at once."""
    api.update_repo_settings(RUN, private=False, gated="auto")
    info = api.repo_info(RUN)

    assert (False, "auto") == (info.private, info.gated)


def test_branches_and_tags_point_at_commits(hub, api, client) -> None:
    """A branch moves by itself, a tag never."""
    first = client.commit({"a": b"1"})
    api.create_branch(RUN, branch="w/0")
    api.create_tag(RUN, tag="v1", revision=first)
    add = CommitOperationAdd("a", b"2")
    api.create_commit(RUN, [add], commit_message="m", revision="w/0")
    refs = api.list_repo_refs(RUN)
    targets = {ref.name: ref.target_commit for ref in refs.branches}

    assert (first, True) == (targets["main"], targets["w/0"] != first)
    assert [("v1", first)] == [(ref.name, ref.target_commit) for ref in refs.tags]
    assert (b"1", b"2") == (client.read("a"), client.read("a", "w/0"))


def test_branches_and_tags_are_there_once_and_go(hub, api) -> None:
    """``main`` stays."""
    api.create_branch(RUN, branch="b")
    api.create_tag(RUN, tag="t")

    assert 409 == status(api.create_branch, RUN, branch="b")
    assert 409 == status(api.create_tag, RUN, tag="t")
    assert 403 == status(api.delete_branch, RUN, branch="main")
    api.delete_branch(RUN, branch="b")
    api.delete_tag(RUN, tag="t")
    with pytest.raises(RevisionNotFoundError):
        api.repo_info(RUN, revision="b")


def test_a_tag_keeps_what_a_squash_would_drop(api, client) -> None:
    """Its commits stay readable."""
    first = client.commit({"a": b"1"})
    api.create_tag(RUN, tag="kept")
    client.commit({"a": b"2"})
    api.super_squash_history(RUN)

    assert (b"1", b"2") == (client.read("a", first), client.read("a"))


def test_a_card_is_checked_before_anything_is_uploaded(hub, api, client) -> None:
    """A bad one is refused; one without metadata gets a warning."""
    client.commit({"README.md": b"---\nlicense: mit\n---\n# A model\n"})
    with pytest.raises(ValueError, match="Invalid metadata in README.md"):
        client.commit({"README.md": b"---\na: [1\n---\n"})
    with pytest.warns(UserWarning, match="empty or missing yaml metadata"):
        client.commit({"README.md": b"# A model\n"})

    assert 2 == hub.counts().commits


def test_storage_is_told_where_the_hub_tells_it() -> None:
    """By repository, and as a share of the whole."""
    with HubEmulator(limits=Limits(storage_bytes=1000)) as hub:
        hub.create_repo(RUN)
        api = HfApi(endpoint=hub.endpoint, token=hub.token)
        api.upload_file(repo_id=RUN, path_in_repo="w.bin", path_or_fileobj=b"1" * 250)
        (told,) = api.list_user_repos()

        assert (RUN, 250, 25.0) == (told.id, told.storage, told.storage_percent)
        assert 250 == api.repo_info(RUN).used_storage
