"""The share of the peak in the records of a run."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from speedtronic.pure.flops import flops_per_token
from speedtronic.shell import utilization
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.data.prepare import silent
from speedtronic.shell.metrics import read_log
from speedtronic.shell.opening import open_session
from speedtronic.shell.session import Session
from speedtronic.shell.train import train
from speedtronic.shell.utilization import Utilization

ROWS = """
import torch
from torch import nn

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.ones(4), torch.tensor(0)

def build():
    return nn.Linear(4, 2)
"""


@pytest.fixture(autouse=True)
def nothing_measured_before() -> Iterator[None]:
    """What another test measured must not count here."""
    utilization._measured.cache_clear()
    yield
    utilization._measured.cache_clear()


def raw(folder: Path, **logging: Any) -> dict[str, Any]:
    return {
        "run": {"name": "r", "max_steps": 2, "output_dir": str(folder)},
        "model": {"max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 8},
        "logging": logging,
    }


def session_of(config: dict[str, Any]) -> Session:
    with ExitStack() as stack:
        checked, device = config_from_dict(config), torch.device("cpu")
        return open_session(stack, checked, device, None, silent)[1]


def test_a_known_peak_is_taken(tmp_path: Path) -> None:
    """Tokens per second times operations per token, over it and over all ranks."""
    session = session_of(raw(tmp_path, peak_flops=1e9))
    count = flops_per_token(session.config, 0)

    assert pytest.approx(1000 * count / 1e9) == Utilization(session)(1000.0)
    assert pytest.approx(500 * count / 1e9) == Utilization(session, 2)(1000.0)


def test_the_peak_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Per process, in the arithmetic of the run."""
    calls: list[torch.dtype] = []

    def measured(device: torch.device, dtype: torch.dtype, *, enough_s: float) -> float:
        calls.append(dtype)
        return 1e9

    monkeypatch.setattr(utilization, "measured_peak", measured)
    session = session_of(raw(tmp_path))

    assert Utilization(session)(1000.0) == Utilization(session)(1000.0) is not None
    assert [torch.float32] == calls


def test_a_share_may_be_unwanted_or_unknown(tmp_path: Path) -> None:
    """Without a rate there is none, and ``none`` measures nothing."""
    assert Utilization(session_of(raw(tmp_path, peak_flops="none")))(9.0) is None
    assert 0 == utilization._measured.cache_info().currsize
    assert Utilization(session_of(raw(tmp_path, peak_flops=1e9)))(None) is None


def test_data_without_tokens_has_no_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known of a model of one's own on data of one's own."""
    (tmp_path / "rows_without_tokens.py").write_text(ROWS)
    monkeypatch.syspath_prepend(tmp_path)
    config = raw(tmp_path)
    config["model"] = {"name": "rows_without_tokens:build"}
    config["data"] = {"dataset": "rows_without_tokens:Rows"}
    session = session_of(config)

    assert 0 == session.flops_per_token
    assert Utilization(session)(1000.0) is None


def test_every_record_of_a_run_has_it(tmp_path: Path) -> None:
    """As it follows from the rate in the same record."""
    config = config_from_dict(raw(tmp_path, peak_flops=1e10))
    lines = read_log(train(config).run_directory / "metrics.jsonl")
    records = [line for line in lines if line["event"] == "train_step"]

    count = flops_per_token(config, 0)
    for record in records:
        expected = record["tokens_per_second"] * count / 1e10
        assert pytest.approx(expected) == record["mfu"]
    assert 2 == len(records)
