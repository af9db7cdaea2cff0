"""Lanes by the text that names them."""

from pathlib import Path

import pytest

from speedtronic.errors import ConfigError, Unavailable
from speedtronic.shell.lanes import parse_lane


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
    ["", "dir", "dir:", "dir: ", "memory", "memory:x", "/data", "dri:/data", ":"],
)
def test_other_texts_are_told_the_forms(text: str) -> None:
    """The message repeats the text and says what would do."""
    with pytest.raises(ConfigError, match="expected dir:PATH or memory:") as caught:
        parse_lane(text)
    assert repr(text) in str(caught.value)
