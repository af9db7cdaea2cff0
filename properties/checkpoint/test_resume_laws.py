"""A run that was cut anywhere, any number of times, has the bits of a whole one."""

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from speedtronic.shell.config import config_from_dict
from speedtronic.shell.loop import Loop
from speedtronic.shell.train import train

STEPS = 10
BITS = ("model.safetensors", "optimizer.safetensors", "state.safetensors")


class Crash(BaseException):
    """The process is gone; nothing catches it."""


def config(folder: str, name: str, save_every: int, kind: dict[str, Any]) -> Any:
    return config_from_dict(
        {
            "run": {
                "name": name,
                "max_steps": STEPS,
                "device": "cpu",
                "threads": 1,
                "output_dir": folder,
            },
            "model": {
                "n_layer": 1,
                "d_model": 8,
                "n_head": 2,
                "max_seq_len": 4,
                "vocab_size": 16,
                "dropout": 0.3,
            },
            "data": {
                "num_tokens": 100,
                "block_size": 4,
                "vocab_size": 16,
                "micro_batch_size": 1,
                "target_batch_size": kind["rows"],
                "shuffle": kind["shuffle"],
                "prefetch_factor": kind["ahead"],
            },
            "optimizer": {"lr": 0.01, "name": kind["optimizer"]},
            "scheduler": {"warmup_steps": 3, "name": kind["schedule"]},
            "precision": {"mode": kind["precision"], "initial_scale": 2.0**16},
            "evaluation": {"every_steps": 5},
            "checkpoint": {"every_steps": save_every, "keep_last": None},
            "logging": {"progress": False},
        }
    )


def sums(run: Path) -> dict[str, str]:
    """What decides the next step, at the end of a run."""
    path = run / "checkpoints" / f"step-{STEPS:08d}" / "manifest.json"
    files = json.loads(path.read_text())["files"]
    return {name: files[name]["sha256"] for name in BITS}


def losses(run: Path) -> list[tuple[int, float]]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(r["step"], r["loss"]) for r in records if r["event"] == "train_step"]


def run_until(config: Any, cut: int | None) -> None:
    """Train, and crash before the step after ``cut``."""
    real = Loop._advance

    def advance(self: Loop, *arguments: Any) -> None:
        if self.counters.position == cut:
            raise Crash
        real(self, *arguments)

    with patch.object(Loop, "_advance", advance):
        train(config, resume="auto")


kinds = st.fixed_dictionaries(
    {
        "rows": st.sampled_from([1, 3]),
        "shuffle": st.booleans(),
        "ahead": st.sampled_from([1, 4]),
        "optimizer": st.sampled_from(["adamw", "muon"]),
        "schedule": st.sampled_from(["cosine", "wsd"]),
        "precision": st.sampled_from(["fp32", "bf16", "fp16"]),
    }
)


@settings(max_examples=8)
@given(
    kind=kinds,
    save_every=st.integers(1, 5),
    cuts=st.lists(st.integers(0, STEPS - 1), min_size=1, max_size=3).map(sorted),
)
def test_cuts_change_nothing(
    kind: dict[str, Any], save_every: int, cuts: list[int]
) -> None:
    """Steps lost since the last save are computed again, to the same bits."""
    with tempfile.TemporaryDirectory() as folder:
        run_until(config(folder, "whole", save_every, kind), None)
        for cut in cuts:
            try:
                run_until(config(folder, "cut", save_every, kind), cut)
            except Crash:
                continue
            raise AssertionError(f"nobody came to step {cut}")
        run_until(config(folder, "cut", save_every, kind), None)
        whole, cut_run = Path(folder) / "whole", Path(folder) / "cut"

        assert sums(whole) == sums(cut_run)
        assert losses(whole) == losses(cut_run)
        assert list(range(1, STEPS + 1)) == [step for step, _ in losses(cut_run)]
