"""``speedtronic generate`` and ``speedtronic export``: what a run is good for."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from speedtronic.__main__ import main

TINY = """
run: {name: tiny, max_steps: 2, device: cpu, threads: 1}
model: {n_layer: 1, d_model: 16, n_head: 2, max_seq_len: 8, vocab_size: 256}
data: {text_path: a.txt, micro_batch_size: 2, target_batch_size: 2}
optimizer: {average: ema}
"""
RUN = "runs/tiny"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained run, shared by the tests that only read it."""
    path = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        Path("a.txt").write_text("hello world " * 20)
        Path("c.yaml").write_text(TINY)
        assert 0 == main(["train", "--config", "c.yaml", "--quiet"])
    return path


@pytest.fixture(autouse=True)
def inside(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    capsys.readouterr()


def generated(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    command = ["generate", RUN, "--prompt", "hello", "--max-tokens", "12", "--json"]
    assert 0 == main([*command, *more])
    told = json.loads(capsys.readouterr().out)
    assert (True, 12) == (told["ok"], told["tokens"])
    return str(told["text"])


def test_a_seed_decides_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed gives the same text, another one another."""
    first = generated(capsys, "--seed", "1")

    assert first == generated(capsys, "--seed", "1")
    assert first != generated(capsys, "--seed", "2")


def test_at_temperature_0_no_seed_matters(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is drawn, as with one candidate."""
    likeliest = generated(capsys, "--temperature", "0")

    assert likeliest == generated(capsys, "--temperature", "0", "--seed", "5")
    assert likeliest == generated(capsys, "--top-k", "1", "--temperature", "1")


def test_what_is_printed_piece_by_piece_is_the_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Characters of several bytes come whole."""
    text = generated(capsys, "--seed", "3")
    command = ["generate", RUN, "--prompt", "hello", "--max-tokens", "12"]
    assert 0 == main([*command, "--seed", "3"])

    assert f"hello{text}\n" == capsys.readouterr().out


def test_a_checkpoint_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A run means its newest one."""
    (checkpoint,) = Path(RUN, "checkpoints").glob("step-*")
    command = ["generate", "--prompt", "a", "--max-tokens", "3", "--json"]
    assert 0 == main([*command, RUN])
    of_run = json.loads(capsys.readouterr().out)
    assert 0 == main([*command, str(checkpoint)])

    assert of_run["text"] == json.loads(capsys.readouterr().out)["text"]
    assert str(checkpoint) == of_run["checkpoint"]


def test_every_wrong_number_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them together, before the run is opened."""
    numbers = {"--max-tokens": "0", "--temperature": "-1", "--top-k": "0"}
    given = [word for pair in {**numbers, "--seed": "-1"}.items() for word in pair]

    assert 2 == main(["generate", "nowhere", "--prompt", "a", *given])
    lines = capsys.readouterr().err.splitlines()
    assert [f"error: {name}" for name in (*numbers, "--seed")] == [
        line.rpartition(": expected")[0] for line in lines
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["generate", RUN, "--prompt", ""], "the prompt is empty"),
        (["generate", RUN, "--prompt", "a", "--device", "cuda:99"], "cuda:99"),
        (["generate", RUN, "--prompt", "a\udcff"], "--prompt: expected text in UTF-8"),
        (["generate", "nowhere", "--prompt", "a"], "nowhere"),
        (["export", "nowhere", "--to", "out"], "nowhere"),
        (["export", RUN, "--to", "."], "not an empty folder"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With code 2 and nothing on stdout."""
    assert 2 == main(arguments)
    shown = capsys.readouterr()

    assert "" == shown.out
    assert told in shown.err and 1 == len(shown.err.splitlines())


def test_an_export_is_a_folder_with_weights_and_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The notes say where it came from."""
    assert 0 == main(["export", RUN, "--to", str(tmp_path / "out"), "--json"])
    told = json.loads(capsys.readouterr().out)

    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    assert RUN in told["notes"][0]


def test_averaged_weights_are_exported_on_demand(tmp_path: Path) -> None:
    """Beside the raw ones, in a folder of their own, under the same names."""
    folders = raw, average = tmp_path / "raw", tmp_path / "average"
    assert 0 == main(["export", RUN, "--to", str(raw)])
    assert 0 == main(["export", RUN, "--to", str(average), "--average"])
    raw_weights, weights = (load_file(f / "model.safetensors") for f in folders)

    assert raw_weights.keys() == weights.keys()
    head = "model.embed_tokens.weight"
    assert not torch.equal(raw_weights[head], weights[head])
