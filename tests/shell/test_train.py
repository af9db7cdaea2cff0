"""Whole runs: train, evaluate, log, save, resume, refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import speedtronic
from speedtronic.errors import (
    CheckpointError,
    ConfigError,
    ModelError,
    RunError,
    TrainingError,
    UserError,
)
from speedtronic.pure.config import Config, Data, Run
from speedtronic.shell import checkpoint
from speedtronic.shell.checkpoint import load_model
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.metrics import read_log
from speedtronic.shell.train import TrainResult, train

Make = Callable[..., Config]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A config of a tiny run with dropout, accumulation, shuffling and evaluation."""
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 40)

    def build(**changes: Any) -> Config:
        raw: dict[str, Any] = {
            "run": {
                "name": "r", "seed": 3, "max_steps": 6, "output_dir": str(tmp_path),
            },
            "model": {
                "vocab_size": 256, "max_seq_len": 8, "n_layer": 1, "n_head": 2,
                "d_model": 8, "dropout": 0.2,
            },
            "data": {
                "text_path": str(text), "shuffle": True, "micro_batch_size": 2,
                "target_batch_size": 4,
            },
            "optimizer": {"lr": 1e-2, "grad_clip": 1.0},
            "scheduler": {"warmup_steps": 2},
            "evaluation": {"every_steps": 3},
            "checkpoint": {"every_steps": 2, "keep_last": None},
        }  # fmt: skip
        for path, value in changes.items():
            section, _, field = path.partition("__")
            if field:
                raw.setdefault(section, {})[field] = value
            else:
                raw[section] = value
        return config_from_dict(raw)

    return build


def weights(result: TrainResult, step: int) -> dict[str, Tensor]:
    folder = result.run_directory / "checkpoints" / f"step-{step:08d}"
    return load_model(folder)[0]


def steps(result: TrainResult) -> list[dict[str, Any]]:
    lines = read_log(result.run_directory / "metrics.jsonl")
    return [line for line in lines if line["event"] == "train_step"]


def test_a_run_leaves_metrics_checkpoints_and_a_summary(make: Make) -> None:
    """Every step is logged once; the validation loss stands where it was computed."""
    result = train(make())
    found = steps(result)
    summary = json.loads((result.run_directory / "summary.json").read_text())
    kept = sorted(p.name for p in (result.run_directory / "checkpoints").iterdir())

    assert [1, 2, 3, 4, 5, 6] == [line["step"] for line in found]
    assert [3, 6] == [n["step"] for n in found if n["validation_loss"] is not None]
    assert ["step-00000002", "step-00000004", "step-00000006"] == kept
    assert (6, 24, 6 * 4 * 8) == (result.steps, result.samples, result.tokens)
    assert ("completed", 6) == (summary["status"], summary["steps"])
    assert [0.005, 0.01] == [round(n["learning_rate"], 6) for n in found[:2]]


def test_evaluation_logging_and_saving_do_not_change_a_run(make: Make) -> None:
    """The weights are those of a run that does none of them."""
    busy = train(make())
    quiet = train(
        make(
            run__name="quiet",
            evaluation={},
            logging__every_steps=100,
            checkpoint__every_steps=None,
        )
    )
    expected = weights(busy, 6)

    for name, value in weights(quiet, 6).items():
        assert torch.equal(expected[name], value), name


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_a_resumed_run_has_the_bits_of_an_unbroken_one(make: Make, cut: int) -> None:
    """Stopped after any step and continued with more steps to go."""
    schedule = {"scheduler__max_steps": 6}
    whole = train(make(run__name="whole", **schedule))
    train(make(run__max_steps=cut, **schedule))
    resumed = train(make(**schedule), resume="auto")
    expected = weights(whole, 6)

    for name, value in weights(resumed, 6).items():
        assert torch.equal(expected[name], value), name
    told = [(n["step"], n["loss"], n["learning_rate"]) for n in steps(whole)]
    assert told == [(n["step"], n["loss"], n["learning_rate"]) for n in steps(resumed)]


def test_a_run_that_lost_its_exactness_never_claims_it_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Continued by another version, every later checkpoint says so."""
    train(make(run__max_steps=2))
    now = checkpoint.versions()
    monkeypatch.setattr(checkpoint, "versions", lambda: {**now, "torch": "9.9"})
    result = train(make(), resume="auto")
    folder = result.run_directory / "checkpoints"
    told = {
        p.name: json.loads((p / "state.json").read_text()) for p in folder.iterdir()
    }

    assert [True, False, False] == [told[name]["exact"] for name in sorted(told)]


@pytest.mark.parametrize(
    "summary", ["[]", "{", '{"loss": [], "steps": "x"}', '{"loss": {"last": 3}}']
)
def test_a_finished_run_bears_any_summary(make: Make, summary: str) -> None:
    """What is told of it then is less; the run is still finished."""
    done = train(make())
    (done.run_directory / "summary.json").write_text(summary)
    told = train(make(), resume="auto")
    assert (done.steps, None) == (told.steps, told.loss)


def test_a_finished_run_says_so_and_trains_no_more(make: Make) -> None:
    """Resuming it gives the same result; starting it anew is refused."""
    first = train(make())
    again = train(make(), resume="auto")

    assert (first.steps, first.tokens, first.loss) == (
        again.steps,
        again.tokens,
        again.loss,
    )
    assert 0 == again.exit_code
    with pytest.raises(RunError, match="holds a run already"):
        train(make())


@pytest.mark.parametrize(
    "mistake",
    [{"model__vocab_size": 50}, {"data__text_path": "nowhere.txt"}],
    ids=["model", "data"],
)
def test_a_mistake_costs_no_run(make: Make, mistake: dict[str, Any]) -> None:
    """Overwriting deletes the old run only when the new one can begin."""
    old = train(make())
    with pytest.raises(UserError):
        train(make(**mistake), overwrite=True)
    with pytest.raises(UserError):
        train(make(run__name="fresh", **mistake))

    assert (old.run_directory / "checkpoints" / "step-00000006").is_dir()
    assert not (old.run_directory.parent / "fresh").exists()


def test_another_architecture_is_refused_by_name(make: Make) -> None:
    """Each changed field is named with both values."""
    train(make())
    with pytest.raises(ConfigError, match=r"model.d_model: 8 -> 16"):
        train(make(model__d_model=16, run__max_steps=9), resume="auto")


@pytest.mark.parametrize("modes", [("fp16", "fp32"), ("bf16", "fp16")])
def test_a_loss_scale_that_is_there_or_not_is_told(
    make: Make, modes: tuple[str, str]
) -> None:
    """Set back, the run goes on."""
    before, after = modes
    train(make(run__max_steps=2, precision=before))
    with pytest.raises(RunError, match="set it back"):
        train(make(precision=after), resume="auto")

    assert 6 == train(make(precision=before), resume="auto").steps


def test_changed_data_is_refused(make: Make, tmp_path: Path) -> None:
    """The text under a run must be the one it began with."""
    train(make())
    (tmp_path / "text.txt").write_text("something else entirely. " * 60)
    with pytest.raises((CheckpointError, ConfigError), match="fingerprint"):
        train(make(run__max_steps=9), resume="auto")


def test_a_checkpoint_of_another_run_is_a_branch(make: Make) -> None:
    """A new folder that goes on from the old step, with its own options."""
    first = train(make())
    start = first.run_directory / "checkpoints" / "step-00000004"
    branch = train(make(run__name="branch", run__max_steps=6), resume=str(start))

    assert [5, 6] == [line["step"] for line in steps(branch)]
    for name, value in weights(first, 6).items():
        assert torch.equal(value, weights(branch, 6)[name]), name


@pytest.mark.parametrize("below", ["", "checkpoints"])
def test_a_folder_of_checkpoints_is_not_one(make: Make, below: str) -> None:
    """The message says what is expected, not which file is missing."""
    first = train(make())
    with pytest.raises(ConfigError, match="is no checkpoint folder; expected auto"):
        train(make(run__name="branch"), resume=str(first.run_directory / below))


def test_a_run_that_overflows_every_step_stops_with_a_message(make: Make) -> None:
    """It names the step and what to do; the last good weights are kept."""
    config = make(
        precision={"mode": "fp16", "initial_scale": 1e30, "max_skipped_steps": 3},
        run__max_steps=50,
        evaluation={},
    )
    with pytest.raises(TrainingError, match="3 steps in a row were skipped"):
        train(config)
    folder = Path(config.run.output_dir) / "r"

    assert "failed" == json.loads((folder / "summary.json").read_text())["status"]
    newest = sorted(path.name for path in (folder / "checkpoints").iterdir())[-1]
    assert "step-00000003" == newest


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"optimizer": {"lr": 1e38}}, "step 6: the weights are not finite any more"),
        (
            {"precision": {"mode": "fp16", "initial_scale": 1e30}},
            "step 6: none of 6 steps was usable",
        ),
    ],
    ids=["weights", "overflow"],
)
def test_a_run_without_usable_weights_is_not_completed(
    make: Make, changes: dict[str, Any], told: str
) -> None:
    """Though it was too short for the limit of skipped steps."""
    config = make(**changes, scheduler={"warmup_steps": 0})
    with pytest.raises(TrainingError, match=told):
        train(config)
    record = json.loads((Path(config.run.output_dir) / "r" / "run.json").read_text())

    assert record["finish"] is None


def test_a_few_overflows_are_counted_and_survived(make: Make) -> None:
    """The scale falls until the gradient is finite."""
    result = train(
        make(
            precision={"mode": "fp16", "initial_scale": 2.0**30},
            run__max_steps=40,
            evaluation={},
        )  # fmt: skip
    )
    last = steps(result)[-1]

    assert 0 < last["skipped_steps"] < 40
    assert last["loss_scale"] < 2.0**30 / 16


class Metric(nn.Module):
    """A model with its own loss and a metric."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.table = nn.Embedding(256, width)
        self.head = nn.Linear(width, 256)

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.table(input_ids))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "half": torch.full((), 0.5), "logits": logits}


def test_any_factory_trains_and_its_metrics_are_logged(make: Make) -> None:
    """A registered name and keyword arguments."""
    speedtronic.register_model("test-metric", Metric)
    result = train(
        make(
            model={
                "name": "test-metric",
                "kwargs": {"width": 6},
                "max_seq_len": 8,
                "vocab_size": 256,
            }
        )
    )

    assert {"half": 0.5} == steps(result)[-1]["metrics"]
    assert (256, 6) == tuple(weights(result, 6)["table.weight"].shape)


def test_a_transformers_model_learns_the_next_token(make: Make) -> None:
    """Without remote code, and its own config.json is beside the weights."""
    model = {
        "name": "tests.shell.test_train:llama", "vocab_size": 256, "max_seq_len": 8,
    }  # fmt: skip
    result = train(make(model=model))
    folder = result.run_directory / "checkpoints" / "step-00000006"

    assert "llama" == json.loads((folder / "config.json").read_text())["model_type"]
    assert "model.layers.0.self_attn.q_proj.weight" in weights(result, 6)


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=8,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
        )
    )


def test_frozen_parameters_stay_and_have_no_moments(make: Make) -> None:
    """They are in the checkpoint, bit for bit as they began."""
    result = train(make(model__freeze=["transformer.wte.*"]))
    first, last = weights(result, 2), weights(result, 6)

    assert torch.equal(first["transformer.wte.weight"], last["transformer.wte.weight"])
    name = "transformer.h.0.attn.q_proj.weight"
    assert not torch.equal(first[name], last[name])


def test_a_model_without_a_loss_is_refused_before_training(make: Make) -> None:
    """The message says what came back and what was expected."""

    class Silent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Linear(1, 1)

        def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"hidden": self.w(input_ids[..., None].float())}

    speedtronic.register_model("test-silent", Silent)
    with pytest.raises(ModelError, match="expected a loss"):
        train(make(model={"name": "test-silent", "max_seq_len": 8, "vocab_size": 256}))


def test_a_model_that_shifts_the_labels_again_is_refused(make: Make) -> None:
    """It would learn the token after next."""

    class Shifting(Metric):
        def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
            logits = self.head(self.table(input_ids))
            loss = nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
            )
            return {"loss": loss, "logits": logits}

    speedtronic.register_model("test-shifting", Shifting)
    with pytest.raises(ModelError, match="it shifts the labels"):
        train(
            make(model={"name": "test-shifting", "max_seq_len": 8, "vocab_size": 256})
        )


def test_an_error_of_the_model_is_told_with_its_place(make: Make) -> None:
    """Before training, in one line."""

    class Broken(Metric):
        def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
            raise KeyError("memory")

    speedtronic.register_model("test-broken", Broken)
    with pytest.raises(ModelError, match=r"first batch: KeyError: 'memory' .*line \d+"):
        train(make(model={"name": "test-broken", "max_seq_len": 8, "vocab_size": 256}))


def test_an_unknown_compiler_is_refused_before_training(make: Make) -> None:
    """With the nearest name."""
    config = make(compile={"enabled": True, "backend": "inducter"})
    with pytest.raises(ConfigError, match=r"compile.backend: .* mean 'inductor'\?"):
        train(config)


def test_a_time_boxed_run_ends_its_schedule(make: Make) -> None:
    """The last step has the lowest rate, whenever it comes; every share is recorded."""
    config = make(
        run__max_minutes=0.01, scheduler={"warmup_steps": 0, "min_lr_ratio": 0.0}
    )
    result = train(config)
    found = steps(result)

    assert 0.0 == pytest.approx(found[-1]["learning_rate"], abs=1e-8)
    assert 4 * result.steps == (result.run_directory / "progress.f32").stat().st_size


def test_a_hook_that_fails_does_not_stop_the_run(make: Make) -> None:
    """It is told once and dropped."""

    class Broken:
        def on_start(self, info: object) -> None:
            raise OSError("no such service")

        def close(self) -> None: ...

    assert 6 == train(make(), hooks=[Broken]).steps


def test_what_has_no_effect_is_said_once(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """A field that is accepted and idle is never silent."""
    with caplog.at_level("INFO", "speedtronic"):
        train(make(ooo_backprop=True, optimizer={"fused": True, "cautious": True}))
    said = [r.getMessage().partition(":")[0] for r in caplog.records]

    assert (1, 1) == (said.count("ooo_backprop"), said.count("optimizer.fused"))


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("run.yaml", "expected a Config, found the text 'run.yaml'; load_config reads"),
        (Config(run=Run(max_steps=1.5)), "run.max_steps: expected an integer, found"),  # type: ignore[arg-type]
        (Config(data=Data(shuffle="no")), "data.shuffle: expected true or false, fou"),  # type: ignore[arg-type]
    ],
)
def test_a_config_built_in_python_is_checked(config: Any, told: str) -> None:
    """As strictly as a file, and before anything is written."""
    with pytest.raises(ConfigError) as caught:
        train(config)

    assert told in str(caught.value)
