"""One checkpoint: what is saved is what is loaded, or an error that says why not."""

import hashlib
import json
from pathlib import Path
from typing import Any

import attrs
import pytest
import safetensors.torch
import torch
from tests.shell.samples import same_bits, snapshot, training

from speedtronic.errors import CheckpointError, Damaged
from speedtronic.pure.tree import evolve, tree_map
from speedtronic.shell import checkpoint
from speedtronic.shell.checkpoint import (
    all_finite,
    is_saved,
    load,
    load_model,
    owned,
    save,
)

FILES = [
    "config.json",
    "extra.safetensors",
    "manifest.json",
    "model.safetensors",
    "optimizer.safetensors",
    "state.json",
    "state.safetensors",
]


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The checkpoint of step 10 of run 0."""
    return save(tmp_path, snapshot())


def test_a_snapshot_comes_back_as_it_was(saved: Path) -> None:
    """Every field, and the state bit for bit."""
    found = load(saved, training(seed=5))

    assert same_bits(snapshot().state, found.state)
    assert same_bits(snapshot().tensors, found.tensors)
    skip = attrs.filters.exclude("state", "tensors", "values")
    expected = attrs.asdict(snapshot(), filter=skip)
    assert expected == attrs.asdict(found, filter=skip)
    assert snapshot().values["cursor"] == found.values["cursor"]
    assert found.values["loss"] != found.values["loss"]
    assert found.exact


def test_a_folder_of_safetensors_and_strict_json(saved: Path) -> None:
    """Nothing else is in it, and any parser reads the JSON."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert "step-00000010" == saved.name
    assert FILES == names(saved)
    for name in ("config.json", "manifest.json", "state.json"):
        json.loads((saved / name).read_text(), parse_constant=refuse)


def test_hub_tools_read_the_model(saved: Path) -> None:
    """Parameters and persistent buffers stand under their own names."""
    state = snapshot().state
    expected = {**state.params, **state.frozen, **state.buffers}
    del expected["rope"]

    found = safetensors.torch.load_file(saved / "model.safetensors")
    assert same_bits(expected, dict(sorted(found.items(), key=_order(expected))))
    assert snapshot().hub_config == json.loads((saved / "config.json").read_text())


def _order(expected: dict[str, Any]) -> Any:
    return lambda item: list(expected).index(item[0])


def test_the_optimizer_is_stored_by_readable_paths(saved: Path) -> None:
    """A name tells what a tensor is."""
    found = safetensors.torch.load_file(saved / "optimizer.safetensors")

    expected = ["optimizer[0].count", "optimizer[0].first['layer.weight']"]
    assert expected == sorted(found)


def test_a_large_optimizer_is_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are hashed at the same time, come back as one, and are all needed."""
    monkeypatch.setattr(checkpoint, "_SHARD", 64)
    moments = {f"m{i}": torch.full((4,), float(i)) for i in range(16)}
    state = evolve(training(0), optimizer=moments | {"empty": torch.zeros(0)})
    path = save(tmp_path, snapshot(state=state))
    shards = [name for name in names(path) if name.startswith("optimizer")]

    assert [f"optimizer-{i:05d}-of-00004.safetensors" for i in range(1, 5)] == shards
    sizes = [len(safetensors.torch.load_file(path / name)) for name in shards]
    assert [4, 4, 4, 5] == sizes
    assert same_bits(state, load(path, state).state)
    (path / shards[2]).unlink()
    with pytest.raises(Damaged, match=f"{shards[2]} cannot be read"):
        load(path, state)


def test_the_manifest_holds_the_sums_of_all_files(saved: Path) -> None:
    """Sizes and sums are those that any other tool computes."""
    told = json.loads((saved / "manifest.json").read_text())

    assert [n for n in FILES if n != "manifest.json"] == sorted(told["files"])
    for name, digest in told["files"].items():
        data = (saved / name).read_bytes()
        assert len(data) == digest["size"]
        assert hashlib.sha256(data).hexdigest() == digest["sha256"]
    assert ("run-0", 10, True) == (told["run_id"], told["step"], told["finite"])


def test_any_tree_of_tensors_can_be_saved(tmp_path: Path) -> None:
    """A state need not be that of a training."""
    tree = {"a": [torch.ones(2), None, (torch.zeros(0),)], "params": torch.eye(2)}
    path = save(tmp_path, snapshot(state=tree, tensors={}, hub_config=None))
    found = load(path, tree_map(lambda x: x, tree))

    assert same_bits(tree, found.state)
    assert found.hub_config is None
    assert ["manifest.json", "state.json", "state.safetensors"] == names(path)


def test_what_is_not_a_tensor_is_refused_by_path(tmp_path: Path) -> None:
    """Nothing is left out in silence."""
    with pytest.raises(ValueError, match=r"state\['a'\] is float, expected a tensor"):
        save(tmp_path, snapshot(state={"a": 1.0}))
    with pytest.raises(TypeError, match="/values/x: object"):
        save(tmp_path, snapshot(values={"x": object()}))
    assert [] == names(tmp_path)


def test_two_parts_of_a_model_may_not_share_a_name(tmp_path: Path) -> None:
    """One would be lost."""
    state = evolve(training(0), frozen={"layer.bias": torch.zeros(2)})

    with pytest.raises(ValueError, match="two tensors of the name 'layer.bias'"):
        save(tmp_path, snapshot(state=state))


@pytest.mark.parametrize(
    "name", ["it's", 'a "quoted" name', "back\\slash", "new\nline"]
)
def test_a_parameter_may_have_any_name(tmp_path: Path, name: str) -> None:
    """The file has the name itself, not a quoted form of it."""
    state = evolve(training(0), params={name: torch.ones(2)})
    path = save(tmp_path, snapshot(state=state))

    assert name in safetensors.torch.load_file(path / "model.safetensors")
    assert same_bits(state, load(path, state).state)


def test_tied_leaves_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    """Shared storage is shared again where the run shares it."""
    weight = torch.randn(50)
    state = evolve(training(0), params={"embedding": weight, "head": weight})
    path = save(tmp_path, snapshot(state=state))
    found = load(path, state).state

    assert found.params["embedding"].data_ptr() == found.params["head"].data_ptr()
    assert same_bits(state, found)


def test_tied_leaves_become_copies_where_the_run_does_not_share(tmp_path: Path) -> None:
    """A donated step writes into each leaf; two of them must not be one then."""
    zero = torch.zeros(())
    path = save(tmp_path, snapshot(state={"a": zero, "b": zero}))
    found = load(path, {"a": torch.ones(()), "b": torch.ones(())}).state

    assert same_bits({"a": zero, "b": zero}, found)
    assert found["a"].data_ptr() != found["b"].data_ptr()


def test_leaves_that_only_the_run_shares_keep_their_own_values(tmp_path: Path) -> None:
    """A fresh optimizer may share its zeros; the saved moments differ."""
    zero = torch.zeros(())
    state = {"a": torch.tensor(1.0), "b": torch.tensor(2.0)}
    path = save(tmp_path, snapshot(state=state))

    assert same_bits(state, load(path, {"a": zero, "b": zero}).state)


def test_a_like_without_storage_is_enough(saved: Path) -> None:
    """Shapes and dtypes are all that it is asked for."""
    like = tree_map(lambda x: None if x is None else x.to("meta"), training(0))

    assert same_bits(snapshot().state, load(saved, like).state)


def test_another_structure_is_refused_by_name(saved: Path) -> None:
    """Every difference is named with its file, shapes and dtypes."""
    like = training(0, width=7)
    like = evolve(
        like,
        params=like.params | {"head": torch.ones(1)},
        optimizer=(),
        key=torch.zeros(2, dtype=torch.int32),
    )
    with pytest.raises(CheckpointError) as caught:
        load(saved, like)

    told = str(caught.value)
    assert not isinstance(caught.value, Damaged)
    assert f"{saved} does not fit this run: " in told
    assert "model.safetensors['head'] is missing" in told
    weight = "model.safetensors['layer.weight']"
    assert f"{weight} is float32[3, 2], expected float32[7, 2]" in told
    assert "state.safetensors['key'] is int64[2], expected int32[2]" in told
    assert "optimizer.safetensors['optimizer[0].count'] is unexpected" in told


def test_the_reverse_of_an_extra_parameter(tmp_path: Path) -> None:
    """A tensor that the run does not have is named, too."""
    state = evolve(training(0), params={"a": torch.ones(1), "b": torch.ones(1)})
    path = save(tmp_path, snapshot(state=state))

    with pytest.raises(CheckpointError, match=r"safetensors\['b'\] is unexpected"):
        load(path, evolve(state, params={"a": torch.ones(1)}))


def test_another_runs_checkpoint_is_refused(saved: Path) -> None:
    """Both ids are named."""
    with pytest.raises(CheckpointError, match="belongs to run run-0, expected run x"):
        load(saved, training(0), run_id="x")
    assert load(saved, training(0), run_id="run-0")


def test_no_folder_is_no_checkpoint(tmp_path: Path) -> None:
    """A path that does not exist is said to be none."""
    with pytest.raises(CheckpointError, match="no such folder"):
        load(tmp_path / "step-00000001", training(0))


def test_other_versions_make_a_run_inexact(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits may depend on them, so it is said and stays said."""
    monkeypatch.setattr(torch, "__version__", "9.9")
    found = load(saved, training(0))

    assert not found.exact
    (reason,) = found.reasons
    assert reason.endswith("continued with torch 9.9") or "9.9" in reason


def test_reasons_travel_with_the_run(tmp_path: Path) -> None:
    """What was inexact once is not exact after another save."""
    path = save(tmp_path, snapshot(reasons=("a generator was not saved",)))

    assert ("a generator was not saved",) == load(path, training(0)).reasons
    assert json.loads((path / "state.json").read_text())["exact"] is False


def test_a_step_is_never_written_over(saved: Path) -> None:
    """Saving it again is refused; what is there stays."""
    before = {name: (saved / name).read_bytes() for name in FILES}

    with pytest.raises(CheckpointError, match="is there already"):
        save(saved.parent, snapshot(seed=1))
    assert before == {name: (saved / name).read_bytes() for name in FILES}
    assert ["step-00000010"] == names(saved.parent)


def test_is_saved_knows_run_and_step(saved: Path) -> None:
    """Another run's checkpoint of the same step does not count."""
    assert is_saved(saved.parent, snapshot())
    assert not is_saved(saved.parent, snapshot(step=11))
    assert not is_saved(saved.parent, snapshot(seed=1))


def test_the_model_alone(saved: Path) -> None:
    """Weights and config are checked as carefully as the whole."""
    tensors, config = load_model(saved)

    assert snapshot().hub_config == config
    expected = snapshot().state.params["layer.weight"]
    assert same_bits(expected, tensors["layer.weight"])
    path = saved / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 0x10]))
    with pytest.raises(Damaged):
        load_model(saved)


def test_a_checkpoint_without_a_model_says_so(tmp_path: Path) -> None:
    """A tree of other tensors has no model file."""
    path = save(tmp_path, snapshot(state={"a": torch.ones(1)}, hub_config=None))

    with pytest.raises(CheckpointError, match="holds no model.safetensors"):
        load_model(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_noticed(tmp_path: Path, value: float) -> None:
    """Saving looks for itself; moments and buffers may hold what they like."""
    state = training(0)
    mask = evolve(state, buffers=state.buffers | {"mask": torch.tensor([value])})
    bad = evolve(state, params=state.params | {"x": torch.tensor([1.0, value])})

    assert all_finite(mask)
    assert not all_finite(bad)
    assert not all_finite({"w": torch.tensor([value])})
    assert not load(save(tmp_path, snapshot(state=bad)), bad).finite


def test_large_weights_are_finite() -> None:
    """A sum may overflow where no element does."""
    assert all_finite({"w": torch.full((10,), 3e38), "n": torch.tensor(3)})


def test_a_caller_may_know_better_that_a_state_is_not_finite(tmp_path: Path) -> None:
    """The caller's word is enough."""
    path = save(tmp_path, snapshot(finite=False))

    assert not load(path, training(0)).finite


def test_a_validation_loss_that_is_no_number_counts_as_none(tmp_path: Path) -> None:
    """It could not be compared."""
    path = save(tmp_path, snapshot(validation_loss=float("nan")))

    assert load(path, training(0)).validation_loss is None


def test_owned_copies_share_nothing_but_what_was_shared() -> None:
    """A donated step may write over the original."""
    weight = torch.ones(3)
    tree = {"a": weight, "b": weight, "c": weight[:2], "n": None}
    copy = owned(tree)
    weight.zero_()

    assert same_bits({"a": 1.0, "n": None}, {"a": float(copy["a"].min()), "n": None})
    assert copy["a"] is copy["b"]
    assert same_bits(torch.ones(2), copy["c"])
