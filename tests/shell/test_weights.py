"""Weights that exist already."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
from safetensors.torch import save_file
from tests.shell.saved_runs import save_run
from torch import Tensor, nn

from speedtronic.errors import ConfigError, ModelError
from speedtronic.pure.config import Config, Model
from speedtronic.pure.rename import llama_config, to_llama
from speedtronic.pure.transformer import Transformer
from speedtronic.shell.weights import load_weights

SMALL = {"vocab_size": 9, "max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 8}


def transformer(seed: int = 0, **changes: Any) -> Transformer:
    return Transformer(**{**SMALL, **changes}, seed=seed)


def tensors(module: nn.Module) -> dict[str, Tensor]:
    """By name, tied weights once."""
    return {name: p.detach().clone() for name, p in module.named_parameters()}


def same(a: nn.Module, b: nn.Module) -> bool:
    there = b.state_dict()
    return all(torch.equal(x, there[name]) for name, x in a.state_dict().items())


def save(folder: Path, named: dict[str, Tensor], config: object = None) -> str:
    """A folder as on the Hub."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def problems(module: nn.Module, init_from: str, error: type[Exception]) -> list[str]:
    """The lines of the refusal; the module keeps its weights."""
    before = {name: x.clone() for name, x in module.state_dict().items()}
    with pytest.raises(error) as caught:
        load_weights(module, init_from)
    after = module.state_dict()
    assert all(torch.equal(x, after[n]) for n, x in before.items())
    assert all("\n" not in line for line in caught.value.problems)  # type: ignore[attr-defined]
    start = f"model.init_from: {init_from}: "
    return [line.removeprefix(start) for line in caught.value.problems]  # type: ignore[attr-defined]


def test_a_model_file_of_2_0(tmp_path: Path) -> None:
    """Its ``global/latest.safetensors`` holds a tied head twice and loads as it is."""
    source, target = transformer(seed=1), transformer()
    (tmp_path / "global").mkdir()
    file = tmp_path / "global" / "latest.safetensors"
    save_file({n: x.clone() for n, x in source.state_dict().items()}, file)

    for init_from in (str(file), str(tmp_path)):
        target = transformer()
        (told,) = load_weights(target, init_from)
        assert same(source, target)
        assert target.lm_head.weight is target.transformer.wte.weight
        assert f"tensors from {init_from}" in told


@pytest.mark.parametrize("tied", [True, False])
def test_llamas_names(tmp_path: Path, tied: bool) -> None:
    """A folder of `transformers` fits the reference transformer."""
    source = transformer(seed=1, tie_weights=tied)
    target = transformer(tie_weights=tied)
    named = to_llama(tensors(source))
    named["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
    folder = save(tmp_path / "llama", named, llama_config(source.config))

    load_weights(target, folder)
    assert same(source, target)


def test_shards(tmp_path: Path) -> None:
    """The index names the files; all of them are read."""
    source, target = transformer(seed=1), transformer()
    named = list(tensors(source).items())
    parts = {"model-1.safetensors": named[:4], "model-2.safetensors": named[4:]}
    for name, part in parts.items():
        save_file(dict(part), tmp_path / name)
    places = {n: file for file, part in parts.items() for n, _ in part}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))

    load_weights(target, str(tmp_path))
    assert same(source, target)
    (tmp_path / "model-2.safetensors").unlink()
    told = problems(transformer(), str(tmp_path), ModelError)
    assert ["model-2.safetensors is missing"] == told
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    told = problems(transformer(), str(tmp_path), ModelError)
    assert "names no files beside it" in told[0]


def test_half_precision_is_widened(tmp_path: Path) -> None:
    """The module keeps float32, with the values of the file."""
    source, target = transformer(seed=1), transformer()
    half = {n: x.to(torch.bfloat16) for n, x in tensors(source).items()}

    load_weights(target, save(tmp_path, half))
    assert {torch.float32} == {p.dtype for p in target.parameters()}
    assert same(source.to(torch.bfloat16).to(torch.float32), target)


def test_all_misfits_are_told_together(tmp_path: Path) -> None:
    """Missing, unexpected, of another shape, of another kind."""
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    named = dict(module.state_dict())
    del named["0.bias"]
    named["0.weight"] = torch.zeros(2, 2)
    named["1.num_batches_tracked"] = torch.tensor(0.5)
    named["2.weight"] = torch.zeros(1)

    assert [
        "'0.weight' is float32[2, 2] there, float32[3, 2] here",
        "'0.bias' is missing",
        "'1.num_batches_tracked' is float32[] there, int64[] here",
        "'2.weight' is unexpected",
    ] == problems(module, save(tmp_path, named), ModelError)


def test_a_tied_file_in_an_untied_model(tmp_path: Path) -> None:
    """Refused, saying what to set."""
    folder = save(tmp_path, tensors(transformer()))

    assert [
        "'lm_head.weight' is missing: the head is tied there; set model.tie_weights:"
        " true"
    ] == problems(transformer(tie_weights=False), folder, ModelError)


def test_an_untied_file_in_a_tied_model(tmp_path: Path) -> None:
    """Refused, since one of the two weights would be lost."""
    folder = save(tmp_path, tensors(transformer(tie_weights=False)))

    (line,) = problems(transformer(), folder, ModelError)
    assert "'transformer.wte.weight' and 'lm_head.weight' are one tensor here" in line
    assert line.endswith("set model.tie_weights: false")


def llama(**changes: object) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        config = {**llama_config(transformer().config), **changes}
        return save(folder, to_llama(tensors(transformer())), config)

    return write


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (llama(num_attention_heads=4), "model.n_head is 4 there, 2 here"),
        (llama(num_key_value_heads=1), "model.n_kv_head is 1 there, 2 here"),
        (llama(rope_theta=5e5), "model.rope_base is 500000.0 there, 10000.0 here"),
        (llama(rope_parameters={"rope_theta": 5e5}), "model.rope_base is 500000.0"),
        (llama(rms_norm_eps=1e-6), "the norm's epsilon is 1e-06 there, 1e-05 here"),
        (llama(rope_scaling={"rope_type": "linear"}), "positions are scaled"),
        (llama(rope_scaling=[1]), "positions are [1], expected fields"),
        (llama(rope_theta="\x1b[2J"), "model.rope_base is '\\x1b[2J' there"),
        (llama(num_attention_heads={}), "model.n_head is {} there, 2 here"),
        (llama(model_type=["x"]), "is a ['x'] model, expected 'llama'"),
        (llama(model_type="speedtronic", n_head="a"), "model.n_head is a there"),
        (llama(model_type="qwen2"), "is a 'qwen2' model, expected 'llama'"),
        (
            llama(model_type="speedtronic", n_head=4, n_kv_head=None),
            "n_head is 4 there, 2 here",
        ),
    ],
)
def test_numbers_that_no_shape_tells(
    tmp_path: Path, write: Callable[[Path], str], told: str
) -> None:
    """Weights that would load and then compute something else are refused."""
    found = problems(transformer(), write(tmp_path), ModelError)
    assert told in found[0]


def test_names_that_llama_does_not_have(tmp_path: Path) -> None:
    """They are listed."""
    named = to_llama(tensors(transformer()))
    named["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(8)

    (line,) = problems(transformer(), save(tmp_path, named), ModelError)
    assert "no parameter 'model.layers.0.self_attn.q_proj.bias'" in line


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "a.ckpt"])
def test_pickles_are_never_opened(tmp_path: Path, name: str) -> None:
    """Neither as a file nor as all that a folder holds."""
    (tmp_path / name).write_bytes(b"\x80\x04.")

    for init_from in (str(tmp_path / name), str(tmp_path)):
        (line,) = problems(transformer(), init_from, ConfigError)
        assert line.startswith(f"{name} is pickled")
        assert line.endswith("safetensors.torch.save_file")


def test_damaged_files(tmp_path: Path) -> None:
    """A cut file and a Git LFS pointer are told apart."""
    path = Path(save(tmp_path, tensors(transformer()))) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    (line,) = problems(transformer(), str(tmp_path), ModelError)
    assert "is not a whole safetensors file" in line

    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    (line,) = problems(transformer(), str(tmp_path), ModelError)
    assert line.endswith("it is a Git LFS pointer: run git lfs pull")


def test_a_place_without_weights(tmp_path: Path) -> None:
    """An empty folder, and a path that is not there."""
    (line,) = problems(transformer(), str(tmp_path), ConfigError)
    assert "expected model.safetensors" in line
    (line,) = problems(transformer(), str(tmp_path / "no"), ConfigError)
    assert "expected a file, a folder, a lane or OWNER/NAME@REVISION" in line


def test_the_hub_at_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository's folder of that revision is read as any folder."""
    source, target = transformer(seed=1), transformer()
    folder = save(tmp_path, tensors(source))
    asked: list[object] = []

    def download(repository: str, **options: object) -> str:
        asked.extend([repository, options["revision"]])
        return folder

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    load_weights(target, "someone/model-1.5@refs/pr/3")
    assert same(source, target)
    assert ["someone/model-1.5", "refs/pr/3"] == asked


def test_the_hub_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is not in the cache is one clear line."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))

    (line,) = problems(transformer(), "someone/model@main", ConfigError)
    assert line.startswith("it is not in the cache and the Hub did not answer: ")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RepositoryNotFoundError, "there is no such repository, or you may not see it"),
        (RevisionNotFoundError, "it has no revision 'main'"),
        (TimeoutError, "the Hub did not answer: TimeoutError"),
    ],
)
def test_the_hub_refuses(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], told: str
) -> None:
    """Each refusal says what to do."""

    def download(*_: object, **__: object) -> str:
        raise error.__new__(error)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    (line,) = problems(transformer(), "someone/model@main", ConfigError)
    assert told in line


def test_a_run_of_ours(tmp_path: Path) -> None:
    """Its newest whole checkpoint, under the names that it trains with."""
    source, target = transformer(seed=1), transformer()
    run = save_run(tmp_path / "run", Config(model=Model(**SMALL)), source)

    load_weights(target, str(run))
    assert same(source, target)
