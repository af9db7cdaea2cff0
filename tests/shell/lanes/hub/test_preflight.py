"""What is found out before a run starts."""

from collections.abc import Callable
from typing import Any

import huggingface_hub
import pytest

from speedtronic.errors import ConfigError, Unavailable
from speedtronic.pure.config.base import Secret
from speedtronic.shell.lanes.hub.preflight import Finding, check, refuse
from speedtronic.testing.hub import HubEmulator


@pytest.fixture
def options(hub_options: Callable[..., Any]) -> Callable[..., Any]:
    return hub_options


def fatal(findings: list[Finding]) -> list[str]:
    return [each.topic for each in findings if each.fatal]


def test_a_repository_that_will_do(
    repository: str, options: Callable[..., Any]
) -> None:
    """What is worth knowing is told: the storage, and who can write."""
    told = check(repository, options())

    assert [] == fatal(told)
    assert ["storage", "writer"] == [each.topic for each in told]
    assert all(each.text.startswith(f"lane hub:{repository}: ") for each in told)
    assert "use a repository of an organization" in told[1].text


def test_an_organization_has_many_writers(
    hub: HubEmulator, options: Callable[..., Any]
) -> None:
    """Nothing to tell."""
    hub.create_repo("team/run-of-many")
    told = check("team/run-of-many", options())

    assert ["storage"] == [each.topic for each in told]


def test_a_name_that_cannot_be(options: Callable[..., Any]) -> None:
    """The Hub is not asked."""
    assert ["name"] == fatal(check("run", options()))


def test_no_token(
    hub: HubEmulator,
    repository: str,
    options: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where to get one."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", "/nowhere")
    told = check(repository, options(token=None))

    assert ["token"] == fatal(told)
    assert "https://huggingface.co/settings/tokens" in told[0].text


def test_a_wrong_or_expired_token(
    hub: HubEmulator, repository: str, options: Callable[..., Any]
) -> None:
    """Told apart from a missing repository."""
    told = check(repository, options(token=Secret("hf_" + "x" * 34)))

    assert ["token"] == fatal(told)


def test_a_token_that_only_reads(
    hub: HubEmulator, repository: str, options: Callable[..., Any]
) -> None:
    """Told once."""
    told = check(repository, options(token=Secret(hub.read_token)))

    assert ["permission"] == fatal(told)
    assert "the token may only read" in told[0].text


def test_a_token_that_may_only_propose(
    hub: HubEmulator, repository: str, options: Callable[..., Any]
) -> None:
    """Its commits would be answered like lost races."""
    token = hub.add_token("owner", "pull-request")

    assert ["permission"] == fatal(check(repository, options(token=Secret(token))))


def test_the_repository_of_another_user(
    hub: HubEmulator, repository: str, options: Callable[..., Any]
) -> None:
    """A private one is not even seen; a public one cannot be written."""
    token = Secret(hub.add_token("somebody", "write"))
    assert ["missing"] == fatal(check(repository, options(token=token)))

    hub.repo(repository).settings.private = False
    told = check(repository, options(token=token, allow_public=True))
    assert ["permission"] == fatal(told)


def test_a_missing_repository(hub: HubEmulator, options: Callable[..., Any]) -> None:
    """Is made if that is asked for, private."""
    assert ["missing"] == fatal(check("owner/new", options()))
    assert [] == fatal(check("owner/new", options(), create=True))
    assert hub.repo("owner/new").settings.private
    assert [] == fatal(check("owner/new", options(), create=True))


def test_a_repository_that_may_not_be_made(
    hub: HubEmulator, options: Callable[..., Any]
) -> None:
    """In the name of somebody else."""
    assert ["permission"] == fatal(check("stranger/new", options(), create=True))


def test_a_public_repository(
    hub: HubEmulator, repository: str, options: Callable[..., Any]
) -> None:
    """Is refused, also when creating it seems to work, unless it may be public."""
    hub.repo(repository).settings.private = False
    told = check(repository, options(), create=True)
    assert ["public"] == fatal(told)
    assert "distributed.allow_public" in told[0].text
    assert [] == fatal(check(repository, options(allow_public=True)))


@pytest.mark.parametrize(
    ("kind", "topic"),
    [
        ("gated", "gated"),
        ("disabled", "permission"),
        ("unavailable", "network"),
        ("dropped-request", "network"),
        ("too-many", "network"),
        ("expired-token", "token"),
    ],
)
def test_answers_are_told_apart(
    hub: HubEmulator,
    repository: str,
    options: Callable[..., Any],
    kind: str,
    topic: str,
) -> None:
    """One finding, in words that fit."""
    hub.faults.inject(kind, times=None)

    assert [topic] == fatal(check(repository, options()))


def test_no_network(options: Callable[..., Any]) -> None:
    """Nothing is said about the repository."""
    told = check("owner/run", options(endpoint="http://127.0.0.1:9"))

    assert ["network"] == fatal(told)


def test_offline_mode(
    repository: str, options: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch is named."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    told = check(repository, options())

    assert ["network"] == fatal(told)
    assert "HF_HUB_OFFLINE" in told[0].text


def test_refusing_says_everything_at_once() -> None:
    """But an outage is not the user's mistake."""
    found = [
        Finding("public", "p"),
        Finding("writer", "w", False),
        Finding("name", "n"),
    ]
    with pytest.raises(ConfigError) as caught:
        refuse(found)
    assert ["p", "n"] == caught.value.problems
    with pytest.raises(Unavailable):
        refuse([*found, Finding("network", "down")])


def test_no_finding_shows_the_token(
    hub: HubEmulator, repository: str, options: Callable[..., Any]
) -> None:
    """Nor do the options."""
    for kind in ("gated", "expired-token", "storm"):
        hub.faults.inject(kind, times=None)
        assert hub.token not in repr(check(repository, options())) + repr(options())
        hub.faults.clear()
