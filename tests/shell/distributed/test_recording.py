"""One revision of the lane of a run."""

from pathlib import Path

import pytest
from tests.shell.distributed.tampering import (
    ANCHOR,
    FIRST,
    HEAD,
    content,
    kept,
    lane_of,
    lane_with,
    manifest,
)

from speedtronic.errors import ConfigError, Corrupt
from speedtronic.pure.round import names
from speedtronic.pure.round.manifest import MAX_MANIFEST_BYTES
from speedtronic.shell.distributed.recording import (
    lane_of_a_run,
    open_recording,
    walk,
)


def test_it_knows_what_is_kept() -> None:
    """Rounds by their manifests, anchors by their files; the head is one, too."""
    found = open_recording(lane_with())

    assert set(range(FIRST, HEAD + 1)) == found.rounds
    assert {FIRST, ANCHOR, HEAD} == found.anchors
    assert ((FIRST + 1, HEAD),) == found.replayable()
    assert manifest(6) == found.manifest(6)


def test_an_anchor_needs_all_of_its_files() -> None:
    """Manifest, weights and momentum."""
    for name in (names.MANIFEST, names.WEIGHTS, names.MOMENTUM):
        files = {**content(), kept(ANCHOR, name): None}
        assert {FIRST, HEAD} == open_recording(lane_of(files)).anchors


def test_other_names_are_left_alone() -> None:
    """Anybody may put anything on a lane."""
    files = {**content(), "rounds/x": b"", "rounds/007/manifest.json": b""}
    found = open_recording(lane_of(files))

    assert set(range(FIRST, HEAD + 1)) == found.rounds


def test_the_chain_of_an_untouched_run_verifies() -> None:
    """Up to any round."""
    found = open_recording(lane_with())
    for last in (FIRST, 6, HEAD):
        links = list(walk(found, last))
        assert list(range(FIRST, last + 1)) == [link.round for link in links]
        assert {""} == {link.problem for link in links}


def test_a_manifest_that_is_too_large_is_not_read() -> None:
    """Somebody might fill the memory."""
    files = {**content(), kept(6): bytes(MAX_MANIFEST_BYTES + 1)}
    told = {
        link.round: link.problem for link in walk(open_recording(lane_of(files)), 9)
    }

    assert told[6].startswith("rounds/6/manifest.json: expected at most")
    assert "" == told[7]


def test_a_gap_is_told_once_however_long() -> None:
    """The numbers in names come from others."""
    files = {**content(), kept(999_999_999_999): content()[kept(9)]}
    links = list(walk(open_recording(lane_of(files)), HEAD))
    assert "it is kept, but the run is at round 9" == links[-1].problem
    files = {name: x for name, x in content().items() if "rounds/5" not in name}
    files[kept(0)] = content()[kept(4)]
    gaps = [link for link in walk(open_recording(lane_of(files)), HEAD) if link.problem]

    assert [0, 1, 5] == [link.round for link in gaps]
    assert "the manifests of rounds 1 to 3 are not kept" == gaps[1].problem


def test_a_lane_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    """For a command that only reads."""
    with pytest.raises(ConfigError, match="no lane there"):
        lane_of_a_run(f"dir:{tmp_path / 'typo'}")
    (tmp_path / "lane.json").write_text("{}")
    with pytest.raises(ConfigError, match="not of a lane of this version"):
        lane_of_a_run(f"dir:{tmp_path}")
    with pytest.raises(ConfigError, match="expected dir:PATH"):
        lane_of_a_run("typo")


def test_a_blob_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Before the lane is asked."""
    with pytest.raises(Corrupt, match="rounds/6/x is not there"):
        open_recording(lane_with()).fetch("rounds/6/x", tmp_path / "x")
