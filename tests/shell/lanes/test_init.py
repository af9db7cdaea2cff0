"""Lanes by the text that names them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from speedtronic.errors import ConfigError, Denied, Unavailable
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.testing.hub import HubEmulator


def test_a_directory_lane_is_opened(tmp_path: Path) -> None:
    """Once made, it is found by the same text."""
    text = f"dir:{tmp_path}/lane"
    revision = parse_lane(text, create=True).commit({"a": b"1"}, parent=None)
    assert parse_lane(text).head() == revision


def test_a_lane_is_not_made_by_accident(tmp_path: Path) -> None:
    """Without being asked to, a missing lane is an outage."""
    with pytest.raises(Unavailable):
        parse_lane(f"dir:{tmp_path}/lane")
    assert [] == list(tmp_path.iterdir())


def test_the_home_folder_may_be_written_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A config file sees no shell that would expand it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    parse_lane("dir:~/lane", create=True)
    assert (tmp_path / "lane" / "lane.json").exists()


def test_each_memory_lane_is_new() -> None:
    """Two texts, two lanes."""
    one, other = parse_lane("memory:"), parse_lane("memory:")
    one.commit({"a": b"1"}, parent=None)
    assert other.head() is None


@pytest.mark.parametrize(
    "text",
    ["", "dir", "dir:", "dir: ", "memory", "memory:x", "/data", "dri:/data", ":"]
    + ["hub", "hub:", "hub: ", "Hub:me/run"],
)
def test_other_texts_are_told_the_forms(text: str) -> None:
    """The message repeats the text and says what would do."""
    forms = "expected dir:PATH, hub:OWNER/NAME or memory:"
    with pytest.raises(ConfigError, match=forms) as caught:
        parse_lane(text)
    assert repr(text) in str(caught.value)


def test_a_lane_on_the_hub_is_opened(
    repository: str, hub_options: Callable[..., HubOptions]
) -> None:
    """The Hub is asked at the first call."""
    lane = parse_lane(f"hub:{repository}", hub=hub_options())
    revision = lane.commit({"a": b"1"}, parent=None)

    assert revision == lane.head()


def test_a_repository_is_made_when_asked_for(
    hub: HubEmulator, hub_options: Callable[..., HubOptions]
) -> None:
    """Private, and not by accident."""
    with pytest.raises(Denied, match="no such repository"):
        parse_lane("hub:owner/made", hub=hub_options()).head()

    assert parse_lane("hub:owner/made", create=True, hub=hub_options()).head() is None
    assert hub.repo("owner/made").settings.private


def test_a_repository_that_will_not_do_is_refused(
    hub: HubEmulator, repository: str, hub_options: Callable[..., HubOptions]
) -> None:
    """Before anything is written to it."""
    hub.repo(repository).settings.private = False
    with pytest.raises(ConfigError, match="the repository is public"):
        parse_lane(f"hub:{repository}", create=True, hub=hub_options())


@pytest.mark.parametrize("name", ["run", "a/b/c", "me/run.git", "https://hf.co/me/run"])
def test_names_of_no_repository_are_told(name: str) -> None:
    """In the config's words, before the network is needed."""
    with pytest.raises(ConfigError, match="expected OWNER/NAME of letters"):
        parse_lane(f"hub:{name}")


def test_only_the_hub_needs_its_client() -> None:
    """Importing it takes a third of a second."""
    code = (
        "import sys, speedtronic.shell.lanes as lanes; lanes.parse_lane('memory:');"
        " assert 'huggingface_hub' not in sys.modules"
    )

    assert 0 == subprocess.run([sys.executable, "-c", code]).returncode
