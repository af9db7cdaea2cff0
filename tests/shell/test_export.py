"""Folders that Hub tools load."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.shell.saved_runs import save_run
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from speedtronic.errors import RunError
from speedtronic.pure.config import Config, Data, Model
from speedtronic.pure.transformer import Transformer
from speedtronic.shell.data.tokenizers import build_tokenizer
from speedtronic.shell.export import export, export_run
from speedtronic.shell.generate import generate, logits_of
from speedtronic.shell.models import register_model
from speedtronic.shell.weights import load_weights

SMALL = {"max_seq_len": 16, "n_layer": 2, "n_head": 4, "n_kv_head": 2, "d_model": 16}
TEXTS = [
    "plain text, with  spaces\tand\nlines \n",
    "caf\u00e9 \u4e2d\u6587 \U0001f600\U0001f468\u200d\U0001f469",
    "\x00\ufeff\u2028 it's ",
]


def config(**data: Any) -> Config:
    vocab = data.pop("vocab_size", 256)
    return Config(model=Model(vocab_size=vocab, **SMALL), data=Data(**data))


def noisy(**changes: Any) -> Transformer:
    model = Transformer(**{"vocab_size": 256, **SMALL, **changes}).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator) * 0.1)
    return model


def write(folder: Path, told: Config, model: nn.Module | None = None) -> list[str]:
    tensors = {n: p.detach() for n, p in (model or noisy()).named_parameters()}
    return list(export(tensors, told, build_tokenizer(told.data), folder))


@pytest.mark.parametrize("tied", [True, False])
def test_the_reference_loads_without_our_code(tmp_path: Path, tied: bool) -> None:
    """`transformers` gives the same logits, and goes on with the same text."""
    told = Config(model=Model(vocab_size=256, tie_weights=tied, **SMALL))
    model = noisy(tie_weights=tied)
    run = save_run(tmp_path / "run", told, model)

    export_run(run, tmp_path / "out")
    other = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert "LlamaForCausalLM" == type(other).__name__
    ids = torch.arange(0, 240, 15)[None]
    with torch.no_grad():
        ours, theirs = model(ids)["logits"], other(ids).logits
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    prompt = tokenizer("The ", return_tensors="pt")
    found = other.generate(**prompt, max_new_tokens=8, do_sample=False)
    with logits_of(model) as logits:
        ids = generate(logits, b"The ", max_tokens=8, max_seq_len=16, temperature=0.0)
        assert [*b"The ", *ids] == found[0].tolist()


def test_our_own_start_from_an_exported_folder(tmp_path: Path) -> None:
    """The way back is as short."""
    source, target = noisy(), Transformer(vocab_size=256, **SMALL)
    write(tmp_path / "out", config(), source)

    load_weights(target, str(tmp_path / "out"))
    assert torch.equal(source.lm_head.weight, target.lm_head.weight)


@pytest.mark.parametrize("mark", ["none", "256"])
def test_bytes_become_a_tokenizer_file(tmp_path: Path, mark: str) -> None:
    """Its ids are the bytes, both ways, for any text; the mark ends a generation."""
    told = config(end_of_document=mark, vocab_size=264)
    write(tmp_path / "out", told, noisy(vocab_size=264))

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert list(text.encode()) == ids
        assert text == tokenizer.decode(ids)
    assert 256 + (mark == "256") == len(tokenizer)
    expected = 256 if mark == "256" else None
    assert expected == tokenizer.eos_token_id
    generation = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert expected == generation["eos_token_id"]


def test_a_mark_far_beyond_the_bytes(tmp_path: Path) -> None:
    """No file can say it, so there is none, and the user is told."""
    told = write(tmp_path / "out", config(end_of_document="300"))

    assert ["no tokenizer.json: ids between the bytes and the mark 300"] == told
    assert not (tmp_path / "out" / "tokenizer.json").exists()


@pytest.mark.parametrize("beside", [False, True])
def test_a_tokenizer_file_is_copied(tmp_path: Path, beside: bool) -> None:
    """With what lies beside it."""
    library = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    (tmp_path / "own").mkdir()
    library.save(str(tmp_path / "own" / "tokenizer.json"))
    if beside:
        (tmp_path / "own" / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "?"})
        )
    told = config(tokenizer=str(tmp_path / "own"))

    assert [] == write(tmp_path / "out", told)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert [1, 0, 2] == tokenizer("b a c")["input_ids"]
    assert ("?" if beside else None) == tokenizer.unk_token


def test_a_model_of_the_users_keeps_its_names(tmp_path: Path) -> None:
    """Its weights and its own config go out, and the user is told."""
    register_model("exported line", lambda: nn.Linear(2, 2))
    told = Config(model=Model(name="exported line"))
    model = nn.Linear(2, 2)
    run = save_run(tmp_path / "run", told, model)

    lines = export_run(run, tmp_path / "out")
    assert any("keep their own names" in line for line in lines)
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(model.weight, found["weight"])
    assert ["bias", "weight"] == sorted(found)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """An empty folder will do, a file or a full one will not."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()

    assert [] == write(tmp_path / "empty", config())
    for name in ("empty", "file"):
        with pytest.raises(RunError, match="is not an empty folder"):
            write(tmp_path / name, config())
