"""What is found out about a run before it trains."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from speedtronic.shell.check import check, problems_of
from speedtronic.shell.config import config_from_dict

TINY = {"n_layer": 1, "d_model": 16, "n_head": 2, "max_seq_len": 8, "vocab_size": 32}
HERE = "speedtronic_test_models"


class Bigram(nn.Module):
    """Logits and, from labels, the loss that a subclass chooses."""

    def __init__(self, vocab: int = 32) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, vocab)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Any:
        logits = self.table(input_ids)
        if labels is None:
            return {"logits": logits}
        return {"loss": self.loss(logits, labels), "logits": logits}

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class ShiftsOnceMore(Bigram):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().loss(logits[:, :-1], labels[:, 1:])


class FlatAtFirst(ShiftsOnceMore):
    """A head of zeros: every label has the same loss until weights are shaken."""

    def __init__(self, vocab: int = 32) -> None:
        super().__init__(vocab)
        nn.init.zeros_(self.table.weight)


class Smoothed(Bigram):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), label_smoothing=0.5
        )


class SmoothedOnPurpose(Smoothed):
    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Any:
        assert labels is not None
        count = torch.tensor(float(labels.numel()))
        loss = self.loss(self.table(input_ids), labels)
        return {"loss_sum": loss * count, "count": count}


class OnlyALoss(ShiftsOnceMore):
    """Logits come only when no labels are given."""

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Any:
        output = super().forward(input_ids, labels)
        return output["logits"] if labels is None else output["loss"]


class LossFirst(ShiftsOnceMore):
    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Any:
        output = super().forward(input_ids, labels)
        return output["loss"], output["logits"]


class FourPositions(Bigram):
    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Any:
        positions = torch.arange(input_ids.shape[1])
        places = nn.functional.embedding(positions, torch.zeros(4, 32))
        return {"logits": self.table(input_ids) + places}


class Breaks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, input_ids: Tensor) -> Tensor:
        raise KeyError("attention")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go to the test's own folder, and the models above can be named."""
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(HERE)
    for model in (
        Bigram,
        ShiftsOnceMore,
        FlatAtFirst,
        Smoothed,
        SmoothedOnPurpose,
        OnlyALoss,
        LossFirst,
        FourPositions,
        Breaks,
    ):
        setattr(module, model.__name__, model)
    monkeypatch.setitem(sys.modules, HERE, module)


def told(**sections: Any) -> list[str]:
    sections.setdefault("model", TINY)
    sections.setdefault("data", {"num_tokens": 500})
    sections.setdefault("run", {"device": "cpu"})
    return check(config_from_dict(sections))


def of_model(name: str, **data: Any) -> list[str]:
    model = {"name": f"{HERE}:{name}", "max_seq_len": 8}
    return told(model=model, data={"num_tokens": 500, "vocab_size": 32, **data})


def test_a_good_config_has_no_problem(tmp_path: Path) -> None:
    """The reference model on made-up data; no run folder is made by looking."""
    assert [] == told()
    assert [] == list(tmp_path.glob("runs/*run*"))


def test_every_kind_of_problem_is_told_at_once() -> None:
    """Folder, device, data and model, each by its own line."""
    lines = told(
        run={"output_dir": "/dev/null/runs", "device": "cuda:99"},
        data={"text_path": "missing.txt", "cache_dir": "cache"},
        model={"name": f"{HERE}:Missing"},
        logging={"json_file": "/dev/null/x.jsonl", "hooks": ["tensorbord"]},
    )

    assert [
        "run.output_dir",
        "logging.json_file",
        "run.device",
        "logging.hooks",
        "missing.txt",
        "model.name",
    ] == [line.split(":")[0].split(" ")[0] for line in lines]


def test_a_missing_device_is_told_once() -> None:
    """Though the model cannot be tried on it either."""
    assert 1 == len(told(run={"device": "cuda:99"}))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(0, "is empty"), (5, "has 5 tokens, block_size 8 needs 9"), (9, "")],
)
def test_a_text_shorter_than_a_block_is_told(
    tmp_path: Path, tokens: int, expected: str
) -> None:
    """Exactly block + 1 tokens are enough."""
    (tmp_path / "a.txt").write_text("x" * tokens)
    model = {**TINY, "vocab_size": 256}
    lines = told(model=model, data={"text_path": "a.txt"})

    assert ([expected] if expected else []) == [
        expected for line in lines if expected in line
    ]
    assert bool(expected) == bool(lines)


def test_an_evaluation_without_held_out_data_is_told(tmp_path: Path) -> None:
    """A validation loss that never comes is not a validation loss of 0."""
    (tmp_path / "a.txt").write_text("x" * 9)
    (line,) = told(
        model={**TINY, "vocab_size": 256},
        data={"text_path": "a.txt"},
        evaluation={"every_steps": 1},
    )

    assert line.startswith("evaluation.every_steps: expected held-out data")


def test_an_id_beyond_the_reference_model_is_told(tmp_path: Path) -> None:
    """Both sizes and the id are named."""
    (tmp_path / "a.txt").write_text("hello world, hello world")
    (line,) = told(data={"text_path": "a.txt"})

    assert "model.vocab_size 32" in line
    assert f"id {ord('w')}" in line


def test_an_id_beyond_any_model_is_told(tmp_path: Path) -> None:
    """Though it may not be in the first batch."""
    (tmp_path / "a.txt").write_text("\x01" * 400 + "\x7f")
    (line,) = of_model("Bigram", text_path="a.txt", vocab_size=None)

    assert "fails for the token id 127" in line
    assert "of at least 128" in line


def test_a_larger_vocabulary_than_needed_passes(tmp_path: Path) -> None:
    """Rows that no token uses do no harm."""
    (tmp_path / "a.txt").write_text("hello world " * 20)

    assert [] == told(model={**TINY, "vocab_size": 300}, data={"text_path": "a.txt"})


@pytest.mark.parametrize("name", ["Bigram", "SmoothedOnPurpose"])
def test_a_right_loss_passes(name: str) -> None:
    """The cross-entropy of the logits, or another one that says it is another."""
    assert [] == of_model(name)


@pytest.mark.parametrize(
    "name", ["ShiftsOnceMore", "FlatAtFirst", "OnlyALoss", "LossFirst"]
)
def test_a_model_that_shifts_labels_again_is_told(name: str) -> None:
    """It would learn the token after next, and look healthy."""
    (line,) = of_model(name)

    assert "the model's own loss is" in line
    assert "it shifts the labels, which are shifted already" in line


def test_another_loss_must_say_so() -> None:
    """Two numbers and the way out."""
    (line,) = of_model("Smoothed")

    assert "'loss_sum' and 'count' if another loss is meant" in line


def test_a_transformers_model_is_right() -> None:
    """It shifts labels itself, and so it is never given any."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=8,
    )
    sys.modules[HERE].Llama = lambda: transformers.LlamaForCausalLM(config)  # type: ignore[attr-defined]

    assert [] == of_model("Llama")


def test_a_model_that_fails_is_told_with_its_error() -> None:
    """The kind and the text of the user's own exception, in one line."""
    (line,) = of_model("Breaks")

    assert line.startswith("model.name: ")
    assert "KeyError: 'attention'" in line


def test_a_context_beyond_the_models_positions_is_told() -> None:
    """It fails here and not in the middle of a run."""
    assert [] == of_model("FourPositions", block_size=4)
    (line,) = of_model("FourPositions", block_size=8)

    assert line.startswith("model.name: ")


def test_errors_of_any_kind_become_lines() -> None:
    """One line each, whatever was raised."""

    def fail() -> None:
        raise RuntimeError("first\nsecond")

    assert ["data: RuntimeError: first second"] == problems_of("data", fail)
