"""What lies beside the rounds of a run."""

import json

import pytest
from tests.shell.distributed.small_run import begin

import speedtronic
from speedtronic.errors import Corrupt
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.shell.distributed.published import SETTINGS, read_run_file
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.lanes.memory import MemoryLane


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Lane:
    """That of a finished run."""
    folder = tmp_path_factory.mktemp("run")
    begin(folder, f"dir:{folder / 'lane'}")
    return parse_lane(f"dir:{folder / 'lane'}")


def test_the_run_file_belongs_to_the_run(lane: Lane) -> None:
    """Its recipe is what the lineage is made of, and it says who wrote it."""
    head = str(lane.head())
    run = read_run_file(lane, head)
    manifest = manifests.parse(lane.read(names.MANIFEST, head))

    assert run is not None
    assert manifest.lineage == run.lineage
    assert speedtronic.__version__ == run.version
    assert set(SETTINGS) == set(run.settings)
    assert (4, 2) == (
        run.settings["run.max_steps"],
        run.settings["distributed.inner_steps"],
    )
    assert ["data.store"] == [store.field for store in run.stores]


def test_other_tools_find_their_files(lane: Lane) -> None:
    """Those that an export writes."""
    head = str(lane.head())
    there = lane.names("", head)

    assert {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    } <= set(there)
    assert "llama" == json.loads(lane.read("config.json", head))["model_type"]


def test_a_lane_without_a_run_file() -> None:
    """None, which is not a mistake; one that is far too large is."""
    lane = MemoryLane()
    assert read_run_file(lane, lane.commit({"a": b""}, parent=None)) is None
    with pytest.raises(Corrupt, match="is no run file"):
        read_run_file(lane, lane.commit({"run.json": bytes(2**21)}, parent=lane.head()))
