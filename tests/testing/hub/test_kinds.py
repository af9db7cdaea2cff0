"""Each switch, as the real client sees it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from speedtronic.testing.hub import KINDS
from speedtronic.testing.hub.faults import FOREVER

try:
    import httpx2 as httpx
except ImportError:  # the client's 1.x
    import httpx  # type: ignore[no-redef]

RUN = "owner/run"
LARGE = bytes(range(256)) * 4096


def failing(call: Callable[[], object]) -> HfHubHTTPError:
    with pytest.raises(HfHubHTTPError) as raised:
        call()
    return raised.value


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("busy", 409),
        ("conflict", 412),
        ("rate-limit", 429),
        ("retry-after", 429),
        ("commit-quota", 429),
        ("too-many", 429),
        ("server-error", 500),
        ("bad-gateway", 502),
        ("unavailable", 503),
        ("gateway-timeout", 504),
        ("error-after-applying", 500),
        ("late", 504),
        ("storage-quota", 403),
        ("expired-token", 401),
    ],
)
def test_a_commit_that_fails_has_a_status_and_no_class_of_its_own(
    hub, client, kind, status
) -> None:
    """The client does not try again, and the next commit is well."""
    hub.faults.inject(kind, where="commit")
    error = failing(lambda: client.commit({"a": b"1"}))
    client.commit({"a": b"2"})

    assert (HfHubHTTPError, status) == (type(error), error.response.status_code)
    assert {kind: 1} == hub.counts().faults
    assert b"2" == hub.repo(RUN).read("a")


@pytest.mark.parametrize("kind", ["dropped-reply", "dropped-request"])
def test_a_connection_that_is_closed_is_no_error_of_the_hub(hub, client, kind) -> None:
    """It is a transport's, and not even an `OSError`."""
    hub.faults.inject(kind, where="commit")
    with pytest.raises(httpx.RemoteProtocolError):
        client.commit({"a": b"1"})

    assert (kind == "dropped-reply") == ("a" in hub.repo(RUN).files())


@pytest.mark.parametrize(
    ("kind", "header", "value"),
    [
        ("rate-limit", "RateLimit", '"api";r=0;t=17'),
        ("retry-after", "Retry-After", "17"),
        ("commit-quota", "RateLimit", '"api";r=949;t=271'),
        ("too-many", "RateLimit", None),
    ],
)
def test_too_many_requests_comes_in_four_forms(
    hub, client, kind, header, value
) -> None:
    """With headers, with other headers, with words, with nothing."""
    options = {"seconds": 17} if "seconds" in KINDS[kind].options else {}
    hub.faults.inject(kind, where="commit", **options)
    error = failing(lambda: client.commit({"a": b"1"}))

    assert value == error.response.headers.get(header)


def test_the_client_waits_by_itself_where_it_may(hub, client, naps) -> None:
    """As long as it is told and one second more, or twice as long each time."""
    hub.faults.inject("rate-limit", where="preupload", seconds=40)
    hub.faults.inject("retry-after", where="preupload", seconds=20)
    hub.faults.inject("storm", times=2, where="preupload")
    client.commit({"a": b"1"})

    assert [41, 21] == naps[:2]
    assert 5 == hub.counts().of("preupload")


def test_a_storm_is_of_all_kinds(hub, naps) -> None:
    """By the request's number."""
    hub.faults.inject("storm", times=FOREVER)
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    found = {failing(lambda: api.repo_info(RUN)).response.status_code for _ in range(4)}

    assert {500, 502, 503, 504} == found


@pytest.mark.parametrize("applied", [False, True])
def test_a_stall_ends_when_the_client_has_had_enough(hub, client, applied) -> None:
    """Applied or not."""
    hub.faults.inject("stall", where="info", applied=applied)
    with pytest.raises(httpx.ReadTimeout):
        client.api.repo_info(RUN, timeout=0.1)


def test_a_body_that_stalls(hub, client) -> None:
    """The status is known by then."""
    hub.faults.inject("stalled-body", where="info")
    with pytest.raises(httpx.ReadTimeout):
        client.api.repo_info(RUN, timeout=0.1)


def test_a_body_that_is_cut_is_resumed(hub, client, naps) -> None:
    """By the client itself, from the last whole piece."""
    head = client.commit({"w.bin": LARGE})
    hub.faults.inject("truncated")

    assert LARGE == client.read("w.bin", head)
    assert 2 == hub.counts().of("resolve-get")


def test_a_body_that_is_too_short_is_noticed(hub, client) -> None:
    """By its length."""
    head = client.commit({"w.bin": LARGE})
    hub.faults.inject("short")
    with pytest.raises(OSError, match="Consistency check failed"):
        client.read("w.bin", head)


def test_a_bit_that_is_wrong_is_not_noticed(hub, client) -> None:
    """By nobody but the reader who knows the sum."""
    head = client.commit({"w.bin": LARGE})
    hub.faults.inject("flipped")
    found = client.read("w.bin", head)

    assert 1 == sum(x != y for x, y in zip(found, LARGE, strict=True))


def test_a_repository_that_turns_out_to_be_public(hub, api) -> None:
    """After `create_repo` was content that it exists."""
    api.create_repo(RUN, private=True, exist_ok=True)
    hub.faults.inject("public")

    assert [False, True] == [api.repo_info(RUN).private for _ in range(2)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("disabled", DisabledRepoError),
        ("unknown-repository", RepositoryNotFoundError),
        ("unknown-revision", RevisionNotFoundError),
    ],
)
def test_refusals_with_a_class_of_their_own(hub, api, kind, expected) -> None:
    """By header or text."""
    hub.faults.inject(kind)
    with pytest.raises(expected):
        api.repo_info(RUN)


@pytest.mark.parametrize(
    "call",
    [
        lambda api: api.auth_check(RUN),
        lambda api: api.hf_hub_download(RUN, "a", cache_dir="nowhere"),
    ],
    ids=["auth-check", "download"],
)
def test_a_gated_repository_tells_of_itself_but_gives_nothing(hub, api, call) -> None:
    """Its facts are open, its files are not."""
    hub.faults.inject("gated", times=FOREVER)
    api.repo_info(RUN)
    with pytest.raises(GatedRepoError):
        call(api)


def test_a_squash_in_front_of_a_reader(hub, client) -> None:
    """The head was told, and then it was no more."""
    client.commit({"a": b"1"})
    hub.faults.inject("squash", where="info")
    told = client.head
    with pytest.raises(RevisionNotFoundError):
        client.read("a", told)


def test_connections_that_are_closed_are_not_what_the_client_expects(
    hub, client, naps
) -> None:
    """It takes an outage for a missing file, but not this one."""
    hub.faults.inject("dropped-request", times=FOREVER)
    with pytest.raises(httpx.RemoteProtocolError):
        client.read("a")


def test_every_kind_is_described() -> None:
    """On its page, with its options."""
    page = Path(__file__).parents[3] / "docs/reference/hub-emulator.md"
    lines = [x for x in page.read_text().splitlines() if x.startswith("| `")]
    told = {line.split("`")[1]: line for line in lines}

    assert list(KINDS) == list(told)
    for name, kind in KINDS.items():
        assert [] == [x for x in kind.options if f"`{x}=" not in told[name]]
