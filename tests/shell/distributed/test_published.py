"""What lies beside the rounds of a run."""

import json
from pathlib import Path

import attrs
import pytest
import torch
from huggingface_hub import ModelCard
from tests.pure.round.values import genesis, header
from tests.shell.distributed.small_run import MODEL, begin, plain
from transformers import AutoModelForCausalLM, AutoTokenizer

import speedtronic
from speedtronic.errors import Corrupt
from speedtronic.pure.card import Facts, card, recalled
from speedtronic.pure.config import Model
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names, run_file
from speedtronic.pure.transformer import Transformer
from speedtronic.pure.tree import evolve
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.distributed.leader import Made
from speedtronic.shell.distributed.published import (
    SETTINGS,
    about_model,
    beside,
    read_run_file,
)
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.base import Lane
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.shell.session import Session, build_session
from speedtronic.shell.weights import load_weights

FIRST = genesis()
HEADER = header(FIRST)


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


@pytest.mark.parametrize("frozen", [None, "ab" * 32])
def test_first_weights_are_named_where_they_are_needed(
    small: Session, frozen: str | None
) -> None:
    """By those who join a run with frozen parameters."""
    model = attrs.evolve(small.config.model, init_from="/home/me/weights")
    config = attrs.evolve(small.config, model=model)
    write = beside(config, small, {"config": {}, "frozen": frozen}, [])
    run = run_file.parse(write(Made(manifest=FIRST))[names.RUN])

    assert (None if frozen is None else "/home/me/weights") == run.init_from


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


def test_transformers_loads_what_the_lane_holds(lane: Lane, tmp_path: Path) -> None:
    """With no code of ours; it computes what our own model does."""
    head = str(lane.head())
    for name in lane.names("", head):
        if "/" not in name:
            lane.fetch(name, head, tmp_path / name)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ours = Transformer(**MODEL).eval()
    load_weights(ours, str(tmp_path))
    ids = tokenizer("the lazy", return_tensors="pt")["input_ids"]

    assert "LlamaForCausalLM" == type(theirs).__name__
    assert [list(b"the lazy")] == ids.tolist()
    with torch.no_grad():
        torch.testing.assert_close(
            ours(ids)["logits"], theirs(ids).logits, rtol=1e-5, atol=1e-5
        )


def test_the_card_is_that_of_the_newest_round(lane: Lane) -> None:
    """With the work of all rounds, and losses; Hub tools read its front matter."""
    head = str(lane.head())
    page = lane.read(names.README, head)
    manifest = manifests.parse(lane.read(names.MANIFEST, head))
    facts = recalled(page, 99)

    assert (0, 4, 128) == (facts.since, facts.steps, facts.tokens)
    rounds = list(range(1, manifest.round + 1))
    assert rounds == [point.round for point in facts.curve] != []
    assert facts.curve[-1].validation_loss is not None
    assert "transformers" == ModelCard(page.decode()).data.library_name
    assert b"license" not in page
    assert b'from_pretrained("FOLDER")' in page


def test_a_card_goes_on_after_another_leader(small: Session) -> None:
    """From what the page before says, whoever wrote it."""
    made = Made(manifest=attrs.evolve(FIRST, round=8, serial=9))
    write = beside(small.config, small, {"config": {}}, [])
    before = card(about_model(small.config, small), FIRST, Facts(steps=70, tokens=700))
    told = attrs.evolve(HEADER, inner_steps=5, tokens=50)
    files = write(attrs.evolve(made, headers=(told,), card=before.encode()))

    assert [names.README] == list(files)
    assert Facts(steps=75, tokens=750) == recalled(files[names.README], 0)
    unknown = write(attrs.evolve(made, headers=(told,)))
    assert Facts(since=7, steps=5, tokens=50) == recalled(unknown[names.README], 0)


@pytest.fixture
def small(tmp_path: Path) -> Session:
    """That of a node whose run has not logged anything."""
    config = config_from_dict(plain(tmp_path, "hub:me/run", model={"license": "mit"}))
    ids = torch.zeros(1, 8, dtype=torch.long)
    return build_session(config, {"input_ids": ids, "labels": ids})


def test_what_a_card_says_of_the_model(small: Session, tmp_path: Path) -> None:
    """The reference is loaded by transformers, any other by its own code."""
    about = about_model(small.config, small)
    assert ("small", "transformers", "mit") == (
        about.title,
        about.library,
        about.license,
    )
    assert 'from_pretrained("me/run")' in about.loading
    other = Model(name="torch.nn:Linear", kwargs={"in_features": 2, "out_features": 2})
    own = about_model(attrs.evolve(small.config, model=other), small)
    assert (None, None) == (own.library, own.license)
    assert "`model.init_from: hub:me/run`" in own.loading
    initial = evolve(small.initial, frozen={"w": torch.ones(1)})
    part = about_model(small.config, attrs.evolve(small, initial=initial))
    assert part.library is None
    assert part.loading.endswith("the model cannot be loaded from it\nalone.")


def test_a_lane_without_a_run_file() -> None:
    """None, which is not a mistake; one that is far too large is."""
    lane = MemoryLane()
    assert read_run_file(lane, lane.commit({"a": b""}, parent=None)) is None
    with pytest.raises(Corrupt, match="is no run file"):
        read_run_file(lane, lane.commit({"run.json": bytes(2**21)}, parent=lane.head()))
