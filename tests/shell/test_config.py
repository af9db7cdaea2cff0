"""Config files to configs, and back."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config
from speedtronic.pure.config.fields import value_at
from speedtronic.shell.config import (
    apply_override,
    config_from_dict,
    load_config,
    to_dict,
    to_yaml,
)
from speedtronic.shell.config_file import parse_yaml

TOKEN = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vX7"

# Every section and field of Speedtronic 2.0 with its default, as it prints them.
EVERY_FIELD_OF_2_0 = """
run: {name: speedtronic-run, seed: 1234, device: auto, max_steps: 1000,
  output_dir: runs, log_every: null}
model: {name: reference_transformer, vocab_size: 512, max_seq_len: 128, n_layer: 4,
  n_head: 8, n_kv_head: 8, d_model: 256, d_ff: 1024, dropout: 0.0, tie_weights: true,
  rope_base: 10000.0, gradient_checkpointing: false}
data: {text_path: null, dataset: null, synthetic: true, num_tokens: 100000,
  vocab_size: 512, block_size: 128, micro_batch_size: 1, target_batch_size: 1,
  num_workers: 0, prefetch_factor: null, pin_memory: null, shuffle: false,
  drop_last: true, seed: null, max_steps: null}
optimizer: {name: adamw, lr: 0.0003, betas: [0.9, 0.95], eps: 1.0e-08,
  weight_decay: 0.1, fused: null, grad_clip: null, muon_plus: false, cautious: false,
  muon_momentum: 0.95, muon_ns_steps: 5, muon_norm_eps: 1.0e-08}
scheduler: {name: cosine, warmup_steps: 100, max_steps: 1000, min_lr_ratio: 0.1}
precision: {mode: auto, dtype: null}
checkpoint: {enabled: true, directory: checkpoints, every_steps: 500, keep_last: 3,
  resume: false}
logging: {level: INFO, file: null, every_steps: 1, json_file: null}
distributed: {enabled: false, mode: dumb_diloco, role: single, node_id: null,
  collaborators: [], inner_steps: 500, poll_interval: 60.0, outer_lr: 0.7,
  outer_momentum: 0.9, repo_id: null, token: null, cache_dir: .speedtronic/hub,
  state_dir: .speedtronic/diloco, retry_initial: 1.0, retry_max: 60.0,
  retry_attempts: 6, reset_inner_optimizer: true, async_delta_upload: true,
  delta_upload_queue_size: 1, delta_upload_overflow: skip,
  delta_upload_shutdown_timeout: 5.0, async_global_poll: true}
shape_validation: {enabled: true, alignment: auto, check_batch: true,
  check_sequence: true, check_model: true, check_vocab: false, warn_on_cpu: false}
compile: false
gradient_checkpointing: false
ooo_backprop: false
ooo_streams: 4
"""


def load(text: str) -> Config:
    return config_from_dict(parse_yaml(text, "test"))


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return caught.value.problems


def test_every_field_of_2_0_loads_with_its_default() -> None:
    """A config that 2.0 printed is one of ours; what it leaves out is ours too."""
    explicit = {
        "model": {"n_kv_head": 8, "d_ff": 1024},
        "data": {"vocab_size": 512, "block_size": 128},
        "scheduler": {"max_steps": 1000},
        "distributed": {
            "poll_interval": 60.0,
            "reset_inner_optimizer": True,
            "delta_upload_shutdown_timeout": 5.0,
        },
    }

    assert config_from_dict(explicit) == load(EVERY_FIELD_OF_2_0)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("name: a", "run.name", "a"),
        ("seed: 5", "run.seed", 5),
        ("device: cpu", "run.device", "cpu"),
        ("max_steps: 5", "run.max_steps", 5),
        ("output_dir: out", "run.output_dir", "out"),
        ("log_every: 5", "logging.every_steps", 5),
        ("run: {log_every: 5}", "logging.every_steps", 5),
        ("optimizer: muon", "optimizer.name", "muon"),
        ("optimizer: muon\nmuon_plus: true", "optimizer.muon_plus", True),
        ("cautious: true\noptimizer: muon", "optimizer.cautious", True),
        ("hub: {repo_id: a/b}", "distributed.repo_id", "a/b"),
        ("diloco: {inner_steps: 7}", "distributed.inner_steps", 7),
        ("compile: true", "compile.enabled", True),
        ("compile: {enabled: true}", "compile.enabled", True),
        ("gradient_checkpointing: true", "model.gradient_checkpointing", True),
        ("precision: bf16", "precision.mode", "bf16"),
        ("precision: {dtype: fp16}", "precision.mode", "fp16"),
        ("precision: {dtype: fp16, mode: auto}", "precision.mode", "fp16"),
        ("precision: {mode: auto, dtype: fp16}", "precision.mode", "fp16"),
        ("shape_validation: false", "shape_validation.enabled", False),
        ("shape_validation: {alignment: null}", "shape_validation.alignment", "auto"),
        ("shape_validation: {alignment: 16}", "shape_validation.alignment", 16),
        ("run: {max_steps: 5}\nmax_steps: 5", "run.max_steps", 5),
        ("checkpoint: {resume: auto}", "checkpoint.resume", "auto"),
        ("checkpoint: {resume: true}", "checkpoint.resume", True),
        ("checkpoint: {keep_last: null}", "checkpoint.keep_last", None),
        ("optimizer: {name: AdamW}", "optimizer.name", "adamw"),
        ("logging: {level: debug}", "logging.level", "DEBUG"),
        ("run: {device: CPU}", "run.device", "cpu"),
        ("run: {device: cuda:1}", "run.device", "cuda:1"),
        ("distributed: {mode: single}", "distributed.mode", "single"),
        ("max_steps: 10", "scheduler.max_steps", None),
        ("optimizer:", "optimizer.name", "adamw"),
    ],
)
def test_short_forms_of_2_0_mean_the_full_field(
    text: str, path: str, expected: Any
) -> None:
    """A file written for 2.0 says here what it said there."""
    value = value_at(load(text), path)

    assert (expected, type(expected)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("max_steps: 5\nrun: {max_steps: 6}", ["max_steps", "run.max_steps"]),
        ("run: {max_steps: 6}\nmax_steps: 5", ["max_steps", "run.max_steps"]),
        ("cautious: true\noptimizer: {cautious: false}", ["cautious", "optimizer.c"]),
        (
            "gradient_checkpointing: true\nmodel: {gradient_checkpointing: false}",
            ["gradient_checkpointing", "model.gradient_checkpointing"],
        ),
        ("hub: {inner_steps: 1}\ndiloco: {inner_steps: 2}", ["hub.inn", "diloco.inn"]),
        ("precision: {mode: bf16, dtype: fp16}", ["precision.mode", "precision.dtype"]),
        ("log_every: 2\nlogging: {every_steps: 3}", ["log_every", "logging.every_ste"]),
        ("run: {seed: true}\nseed: 1", ["seed", "run.seed"]),
    ],
)
def test_two_spellings_with_two_values_are_refused(text: str, names: list[str]) -> None:
    """Neither wins by its place in the file."""
    told = mistakes(text)[0]

    assert "with another value; keep one" in told
    assert [] == [name for name in names if name not in told]


def test_a_contradiction_of_secrets_does_not_show_them() -> None:
    """Two tokens are refused without being printed."""
    told = mistakes(f"hub: {{token: {TOKEN}}}\ndistributed: {{token: other}}")

    assert TOKEN not in " ".join(told)
    assert "other" not in " ".join(told).replace("another", "")


def test_rates_in_three_spellings_are_one_rate() -> None:
    """YAML 1.1 reads the first as text."""
    spelled = [f"optimizer: {{lr: {lr}}}" for lr in ("1e-4", "1.0e-4", "0.0001")]

    assert [0.0001] * 3 == [load(text).optimizer.lr for text in spelled]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "optimizer: {lr: abc}",
            "optimizer.lr: expected a finite number, found the text 'abc'",
        ),
        (
            "optimizer: {lr: '1e-4'}",
            "optimizer.lr: expected a finite number, found the text '1e-4'; "
            "write it without quotes",
        ),
        (
            "optimizer: {lr: .nan}",
            "optimizer.lr: expected a finite number, found the number nan",
        ),
        (
            "optimizer: {lr: -1}",
            "optimizer.lr: expected a number above 0, found -1.0",
        ),
        (
            "run: {max_steps: 1.9}",
            "run.max_steps: expected an integer, found the number 1.9",
        ),
        (
            "run: {max_steps: '7'}",
            "run.max_steps: expected an integer, found the text '7'; "
            "write it without quotes",
        ),
        (
            "run: {max_steps: true}",
            "run.max_steps: expected an integer, found true",
        ),
        (
            "run: {max_steps: 1e30}",
            "run.max_steps: expected an integer, found the number 1e+30",
        ),
        (
            "data: {shuffle: 'false'}",
            "data.shuffle: expected true or false, found the text 'false'; "
            "write it as true or false, without quotes",
        ),
        (
            "data: {shuffle: yes}",
            "data.shuffle: expected true or false, found the text 'yes'; "
            "write it as true or false, without quotes",
        ),
        (
            "data: {shuffle: 1}",
            "data.shuffle: expected true or false, found the number 1",
        ),
        (
            "run: {name: 5}",
            "run.name: expected text, found the number 5; put it in quotes",
        ),
        (
            "run: {name: null}",
            "run.name: expected a value, found null; leave it out for the default",
        ),
        ("run: 5", "run: expected fields, found the number 5"),
        ("optimizer: 5", "optimizer: expected fields, found the number 5"),
        ("precision: 16", "precision: expected fields, found the number 16"),
        ("optimizer: {betas: 0.9}", "optimizer.betas: expected a list, found the nu"),
        ("optimizer: {betas: [0.9]}", "optimizer.betas: expected a list of 2, found o"),
        (
            "optimizer: {betas: [0.9, x]}",
            "optimizer.betas[1]: expected a finite number, found the text 'x'",
        ),
        ("model: {freeze: abc}", "model.freeze: expected a list, found the text 'abc'"),
        ("model: {kwargs: [1]}", "model.kwargs: expected fields, found a list"),
        (
            "checkpoint: {resume: 3}",
            "checkpoint.resume: expected true, false or text, found the number 3",
        ),
        (
            "precision: {mode: bf17}",
            "precision.mode: expected one of auto, bf16, fp16, fp32, found 'bf17'",
        ),
        (
            "data: {sources: [{path: a, weight: 0}]}",
            "data.sources[0].weight: expected a number above 0, found 0.0",
        ),
        (
            "data: {sources: [a.txt]}",
            "data.sources[0]: expected fields, found the text 'a.txt'",
        ),
        (
            "distributed: {token: 5}",
            "distributed.token: expected text, found something else "
            "(not shown, it is a secret)",
        ),
        ("run: {seed: 100000000000000000000}", "run.seed: expected an integer, found"),
    ],
)
def test_no_value_is_bent_to_fit(text: str, expected: str) -> None:
    """One line: where, what was expected, what was found, what to do."""
    (line,) = mistakes(text)

    assert line.startswith(expected)


@pytest.mark.parametrize("value", ["nan", "inf", "1e999", "'\uff11'"])
def test_no_hint_where_quotes_are_not_the_mistake(value: str) -> None:
    """Without them, these would be no numbers either."""
    (line,) = mistakes(f"optimizer: {{lr: {value}}}")

    assert "quotes" not in line


def test_an_integral_float_is_an_integer() -> None:
    """1e4 loses nothing as an integer."""
    assert 10_000 == load("run: {max_steps: 1e4}").run.max_steps
    assert int is type(load("run: {max_steps: 1e4}").run.max_steps)
    assert float is type(load("optimizer: {lr: 1}").optimizer.lr)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("optimizer: {lrr: 1}", "optimizer.lrr: unknown field; did you mean optimizer"),
        (
            "optimizer: {weight-decay: 1}",
            "optimizer.weight-decay: unknown field; "
            "did you mean optimizer.weight_decay?",
        ),
        ("lr: 1", "lr: unknown field; did you mean optimizer.lr?"),
        ("run: {lr: 1}", "run.lr: unknown field; did you mean optimizer.lr?"),
        ("optim: {lr: 1}", "optim: unknown field; did you mean optimizer?"),
        (
            "learning_rat: 1",
            "learning_rat: unknown field; did you mean optimizer.lr?",
        ),
        (
            "data: {max_seq_len: 5}",
            "data.max_seq_len: unknown field; did you mean model.max_seq_len?",
        ),
        (
            "data: {sources: [{pth: a}]}",
            "data.sources[0].pth: unknown field; did you mean data.sources[0].path?",
        ),
        (
            "compile: {enabled: true, kind: x}",
            "compile.kind: unknown field; compile has enabled, backend, donate",
        ),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(text: str, expected: str) -> None:
    """Misspelt, hyphenated, or right in the wrong section: the right path is told."""
    (line,) = mistakes(text)

    assert line.startswith(expected)


def test_all_mistakes_are_told_together() -> None:
    """Unknown names, wrong types and bad values, in every section and list."""
    text = """
    lr: 1
    run: {seed: x, max_steps: 0, sed: 1}
    optimizer: {lr: abc, betas: [a, 2]}
    data: {sources: [{weight: -1}, {weight: x}], shuffle: on}
    logging: 5
    """

    assert {
        "lr",
        "run.seed",
        "run.max_steps",
        "run.sed",
        "optimizer.lr",
        "optimizer.betas[0]",
        "data.sources[0].weight",
        "data.sources[1].weight",
        "data.shuffle",
        "logging",
    } == {line.split(":")[0] for line in mistakes(text)}


def test_a_config_survives_a_round_trip_in_each_form(tmp_path: Path) -> None:
    """Plain values, YAML and JSON give back the same config."""
    raw = {
        "optimizer": {"name": "muon", "betas": [0.8, 0.9]},
        "data": {
            "sources": [{"path": "1e4"}, {"dataset": "m:f", "kwargs": {"a": [1]}}]
        },
        "model": {"name": "m:f", "kwargs": {"text": "no", "deep": {"x": None}}},
    }
    config = config_from_dict(raw)
    as_yaml, as_json = tmp_path / "c.yaml", tmp_path / "c.json"
    as_yaml.write_text(to_yaml(config))
    as_json.write_text(json.dumps(to_dict(config)))

    assert config == config_from_dict(to_dict(config))
    assert config == load_config(as_yaml)
    assert config == load_config(as_json)


def test_a_secret_shows_itself_only_when_asked() -> None:
    """Printed it is ***, and what was printed loads as no token."""
    config = config_from_dict({"hub": {"token": TOKEN}})
    shown = f"{config!r} {config} {to_dict(config)} {to_yaml(config)}"

    assert TOKEN not in shown
    assert "***" == to_dict(config)["distributed"]["token"]
    assert None is load(to_yaml(config)).distributed.token
    assert config == config_from_dict(to_dict(config, reveal=True))
    assert TOKEN in to_yaml(config, reveal=True)
    with pytest.raises(TypeError):
        pickle.dumps(config)


@pytest.mark.parametrize("place", ["data.dataset", "model.kwargs.key", "run.name"])
def test_a_token_in_the_wrong_field_is_refused(place: str) -> None:
    """Only distributed.token is kept out of what a run writes."""
    with pytest.raises(ConfigError) as caught:
        config_from_dict(apply_override({}, f"{place}={TOKEN}"))

    assert "holds an access token" in str(caught.value)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {1: 2},
        {"run": {1: 2}},
        {"model": {"kwargs": {1: 2}}},
        {"model": {"kwargs": {"a": object()}}},
        {"model": {"kwargs": {"a": [float("nan")]}}},
        {"run": {"name": "\ud800"}},
        {"run": {"seed": 10**400}},
        {"optimizer": {"lr": 10**400}},
    ],
)
def test_values_that_no_file_holds_are_refused_too(raw: Any) -> None:
    """A dict from a program is read as strictly as a file."""
    with pytest.raises(ConfigError):
        config_from_dict(raw)


def test_a_config_does_not_share_lists_with_what_it_was_made_from() -> None:
    """A config stays what it was when the dict it came from changes."""
    kwargs = {"a": [1]}
    config = config_from_dict({"model": {"name": "m:f", "kwargs": kwargs}})
    kwargs["a"].append(2)

    assert {"a": [1]} == config.model.kwargs
