"""From a lane to the config of a node: what is taken, checked and refused."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.shell.distributed.small_run import begin

from speedtronic.errors import (
    ConfigError,
    Corrupt,
    DataError,
    Denied,
    DeviceError,
    SpeedtronicError,
    Unavailable,
)
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names, run_file
from speedtronic.pure.round.run_file import RunFile
from speedtronic.shell.distributed import joining
from speedtronic.shell.distributed.identity import node_name
from speedtronic.shell.distributed.joining import Found, Joining, find_run, join_run
from speedtronic.shell.distributed.published import read_run_file
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.lanes.memory import MemoryLane

Change = Callable[[RunFile], RunFile]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lane of a finished run with its own text, held-out text and tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("first")
    words = {"the": 0, "quick": 1, "brown": 2, "fox": 3, "?": 4}
    library = Tokenizer(models.WordLevel(words, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.save(str(folder / "own.json"))
    (folder / "held.txt").write_text("quick the fox " * 9)
    begin(
        folder,
        f"dir:{folder / 'lane'}",
        data={
            "tokenizer": str(folder / "own.json"),
            "validation_path": str(folder / "held.txt"),
        },
        optimizer={"lr": 0.01},
    )
    return folder / "lane"


@pytest.fixture
def lane(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of it, beside an empty folder in which this test is."""
    shutil.copytree(original, tmp_path / "lane")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return "dir:../lane"


def join(
    place: str, *overrides: str, role: str = "auto", trust: bool = False
) -> Joining:
    """Join, without training."""
    return join_run(find_run(place), overrides, role=role, trust=trust)


def change(place: str, how: Change) -> None:
    """Put another run file on the lane."""
    lane = parse_lane(place)
    head = str(lane.head())
    run = read_run_file(lane, head)
    assert run is not None
    lane.commit({names.RUN: run_file.encode(how(run))}, parent=head)


def refused(place: str, *overrides: str, **options: Any) -> list[str]:
    """The lines of the refusal."""
    with pytest.raises(ConfigError) as caught:
        join(place, *overrides, **options)
    return caught.value.problems


def test_the_config_is_that_of_the_run(lane: str) -> None:
    """What all agree on, the first node's settings, and what is this node's own."""
    config = join(lane).config

    assert 0.01 == config.optimizer.lr
    assert (2, 4) == (config.data.micro_batch_size, config.data.target_batch_size)
    assert (4, node_name(config)) == (config.run.max_steps, config.run.name)
    section = config.distributed
    assert (True, "auto", lane) == (section.enabled, section.role, section.lane)
    assert (None, (), "runs") == (
        section.node_id,
        section.collaborators,
        config.run.output_dir,
    )


def test_the_data_comes_from_the_lane(lane: str) -> None:
    """Both stores by their fingerprints; the tokenizer is here, byte for byte."""
    data = join(lane).config.data
    run = find_run(lane).run

    assert [f"{lane}@{store.fingerprint}" for store in run.stores] == [
        data.store,
        data.validation_path,
    ]
    there = parse_lane(lane)
    content = there.read("tokenizer.json", str(there.head()))
    assert content == Path(data.tokenizer).read_bytes()


def test_the_command_line_wins(lane: str) -> None:
    """Also over where the data is."""
    Path("own.txt").write_text("the quick " * 50)
    config = join(
        lane, "run.max_steps=9", "data.text_path=own.txt", role="worker"
    ).config

    assert (9, "worker") == (config.run.max_steps, config.distributed.role)
    assert ("own.txt", None) == (config.data.text_path, config.data.store)


def test_a_person_is_told_what_happens(lane: str) -> None:
    """In a few lines."""
    lines = join(lane, "distributed.node_id=me", "run.max_steps=2").lines

    assert lines[0].startswith("joins run ") and f" on {lane}, at round" in lines[0]
    assert lines[2].startswith("data: 387 tokens from the lane, ")
    assert "node me, auto, on cpu, fp32: 2 rows at once, 4 a step" in lines[3]
    assert "its learning rate falls over these steps, not over the run's 4" == lines[4]
    assert lines[-1].startswith("in runs/me; ")


def test_only_some_settings_are_taken(lane: str) -> None:
    """Whoever writes to the lane cannot set a hook or a folder here."""
    more = {"logging.hooks": ["os:system"], "run.output_dir": "/", "run.max_steps": 7}
    change(lane, lambda run: attrs.evolve(run, settings=more))
    config = join(lane).config

    assert ((), "runs") == (config.logging.hooks, config.run.output_dir)
    assert 7 == config.run.max_steps


def test_another_recipe_than_that_of_the_run(lane: str) -> None:
    """The manifest names it."""
    change(
        lane,
        lambda run: attrs.evolve(
            run, recipe={**run.recipe, "config": {"model.name": "x"}}
        ),
    )
    with pytest.raises(Corrupt, match="one of them was replaced"):
        find_run(lane)


@pytest.mark.parametrize(
    ("version", "told"),
    [("4.0.1", "install version 4"), ("2.9", "install version 2")],
)
def test_another_major_version(lane: str, version: str, told: str) -> None:
    """A newer or an older program; another minor version is none."""
    change(lane, lambda run: attrs.evolve(run, version=version))
    (line,) = refused(lane)

    assert f"begun by speedtronic {version}, this is 3.0.0" in line and told in line
    change(lane, lambda run: attrs.evolve(run, version="3.99"))
    assert "begun by speedtronic 3.99" in join(lane).lines[0]


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("nothing", "lane 'nothing': expected dir:PATH"),
        ("dir:nowhere", "no lane there"),
        ("dir:empty", "dir:empty: the lane holds no run"),
    ],
    ids=["word", "folder", "empty"],
)
def test_a_lane_that_is_none(lane: str, place: str, told: str) -> None:
    """One line that says so."""
    parse_lane("dir:empty", create=True)
    (line,) = refused(place)

    assert told in line


def test_a_lane_that_forbids_or_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one is a mistake of the user, the other is none."""

    class Failing(MemoryLane):
        def head(self) -> str | None:
            raise error

    monkeypatch.setattr(joining, "lane_of_a_run", lambda place: Failing())
    error: SpeedtronicError = Denied("no such repository")
    assert ["no such repository"] == refused("hub:me/run")
    error = Unavailable("no route")
    with pytest.raises(Unavailable):
        join("hub:me/run")


def test_a_run_without_a_run_file(lane: str) -> None:
    """It can be taken part in, but not by its lane alone."""
    opened = parse_lane(lane)
    opened.commit({}, [names.RUN], parent=opened.head())
    (line,) = refused(lane)

    assert "the run has no run.json" in line


def with_code(found: Found, **fields: Any) -> Found:
    """The run, of a recipe that names something else; the model is the smallest."""
    told = found.run.recipe["config"].items()
    config = {p: v for p, v in told if not p.startswith("model.")} | fields
    recipe = {**found.run.recipe, "config": config}
    run = attrs.evolve(found.run, recipe=recipe)
    return attrs.evolve(found, run=run)


CODE = {
    "model.name": "no_such_module:build",
    "data.dataset": "me/texts",
    "data.tokenizer": "math:sqrt",
}


def test_code_and_datasets_need_a_word(lane: str) -> None:
    """All of them are named; nothing is imported before."""
    found = attrs.evolve(with_code(find_run(lane), **CODE), place="dir:nowhere")
    with pytest.raises(ConfigError) as caught:
        join_run(found, [], role="auto", trust=False)
    told = [line for line in caught.value.problems if "--trust" in line]

    assert set(CODE) == {line.partition(":")[0] for line in told}


def test_a_factory_that_is_not_here(lane: str) -> None:
    """It does not travel, and that is one line."""
    found = with_code(find_run(lane), **{"model.name": "no_such_module:build"})
    with pytest.raises(ConfigError) as caught:
        join_run(found, [], role="auto", trust=True)
    (line,) = caught.value.problems

    assert line.startswith("model.name: 'no_such_module:build' needs the module")
    assert line.endswith("it does not travel with the run")


def test_a_store_that_is_not_there(lane: str) -> None:
    """The line says how to send it."""
    opened = parse_lane(lane)
    tokens = opened.names("tokens/", str(opened.head()))
    opened.commit({}, list(tokens), parent=opened.head())
    first, second = refused(lane)

    assert first.startswith("data.store: dir:../lane does not hold the token store")
    assert first.endswith("run `speedtronic prepare --config F --push dir:../lane`")
    assert second.startswith("data.validation_path: ")


def test_parts_of_a_mixture_that_do_not_travel(lane: str) -> None:
    """Each is named."""
    found = with_code(
        find_run(lane),
        **{"data.sources": [{"weight": 1.0}, {"weight": 2.0}]},
    )
    with pytest.raises(ConfigError) as caught:
        join_run(found, [], role="auto", trust=False)

    assert ["data.sources[0]", "data.sources[1]"] == [
        line.partition(":")[0] for line in caught.value.problems
    ]


def test_a_tokenizer_that_was_replaced(lane: str) -> None:
    """Its hash is part of the recipe."""
    opened = parse_lane(lane)
    opened.commit({"tokenizer.json": b"{}"}, parent=opened.head())
    with pytest.raises(Corrupt, match=r"tokenizer.json is not the one"):
        join(lane)


def test_frozen_parameters_need_their_weights(lane: str) -> None:
    """They never travel; other first weights are not asked for."""
    found = find_run(lane)
    run = attrs.evolve(found.run, init_from="me/model@main")
    assert None is joined(found, run).config.model.init_from
    frozen = attrs.evolve(run, recipe={**run.recipe, "frozen": "ab" * 32})
    assert "me/model@main" == joined(found, frozen).config.model.init_from


def joined(found: Found, run: RunFile) -> Joining:
    """As if the run had that file."""
    changed = attrs.evolve(found, run=run)
    return join_run(changed, [], role="auto", trust=False)


@pytest.mark.parametrize(
    ("override", "error"),
    [
        ("optimizer.lrr=1", ConfigError),
        ("no assignment", ConfigError),
        ("run.device=cuda:99", DeviceError),
    ],
)
def test_mistakes_of_the_command_line(
    lane: str, override: str, error: type[Exception]
) -> None:
    """As with `train`."""
    with pytest.raises(error):
        join(lane, override)


def test_a_folder_that_cannot_hold_the_tokenizer(lane: str) -> None:
    """The same words as for any other file."""
    Path("file").touch()
    with pytest.raises(SpeedtronicError, match="file"):
        join(lane, "data.cache_dir=file")


def test_the_stores_open(lane: str) -> None:
    """What the config names can be read here."""
    from speedtronic.shell.data import open_data
    from speedtronic.shell.paths import token_folder

    config = join(lane).config
    data = open_data(config, directory=token_folder(config))
    assert data.has_validation
    data.close()
    assert find_run(lane).run.recipe["data"] == data.fingerprint
    with pytest.raises(DataError):
        open_data(
            attrs.evolve(config, data=attrs.evolve(config.data, store="nowhere")),
            directory=token_folder(config),
        )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("run.output_dir", "../.."),
        ("run.name", "other"),
        ("model.init_from", "/etc/passwd"),
        ("data.text_path", "/etc/passwd"),
        ("logging.file", "../log"),
        ("distributed.node_id", "../x"),
        ("data", {"store": "x"}),
        ("data.sources", [{"path": "/etc/passwd", "weight": 1.0}]),
        ("data.sources", ["text"]),
        ("data.sources", 3),
    ],
)
def test_a_recipe_says_nothing_of_this_machine(
    lane: str, path: str, value: object
) -> None:
    """Where a node reads and writes is never the word of who wrote the run file."""

    def told(run: RunFile) -> RunFile:
        recipe = {**run.recipe, "config": {**run.recipe["config"], path: value}}
        return attrs.evolve(run, recipe=recipe)

    change(lane, told)
    found = find_run_as_it_is(lane)
    with pytest.raises(Corrupt, match="which each node decides for itself"):
        join_run(found, [], role="auto", trust=True)
    assert [] == list(Path.cwd().iterdir())


def test_what_a_run_says_cannot_move_the_cursor(lane: str) -> None:
    """A terminal would obey it."""

    def told(run: RunFile) -> RunFile:
        config = {**run.recipe["config"], "model.name": "\x1b[2Jgpt"}
        return attrs.evolve(run, recipe={**run.recipe, "config": config})

    change(lane, told)
    joined = join_run(find_run_as_it_is(lane), [], role="auto", trust=False)
    assert all(line.isprintable() for line in joined.lines)


def find_run_as_it_is(place: str) -> Found:
    """The run, whose recipe was changed, without the comparison of the lineage."""
    lane = parse_lane(place)
    revision = str(lane.head())
    run = read_run_file(lane, revision)
    assert run is not None
    manifest = manifests.parse(lane.read(names.MANIFEST, revision))
    return Found(place=place, lane=lane, revision=revision, manifest=manifest, run=run)
