"""A run that one node trained on a lane, in about a second, for whoever joins it."""

from pathlib import Path
from typing import Any

from speedtronic.shell.config import config_from_dict
from speedtronic.shell.train import train

TEXT = "the quick brown fox jumps over the lazy dog\n" * 40
MODEL = {
    "n_layer": 1,
    "d_model": 16,
    "n_head": 2,
    "max_seq_len": 8,
    "vocab_size": 256,
}


def plain(folder: Path, lane: str, **changes: Any) -> dict[str, Any]:
    """The config of the node that begins the run, as a file would hold it."""
    text = folder / "text.txt"
    text.write_text(TEXT)
    raw: dict[str, Any] = {
        "run": {"name": "small", "max_steps": 4, "device": "cpu", "threads": 1},
        "model": MODEL,
        "data": {
            "text_path": str(text),
            "micro_batch_size": 2,
            "target_batch_size": 4,
        },
        "checkpoint": {"every_steps": 2},
        "logging": {"progress": False},
        "distributed": {
            "enabled": True,
            "role": "master",
            "lane": lane,
            "node_id": "first",
            "inner_steps": 2,
            "grace": 0.0,
            "poll_interval": 0.05,
        },
    }
    raw["run"]["output_dir"] = str(folder / "runs")
    for section, fields in changes.items():
        raw[section] = {**raw.get(section, {}), **fields}
    return raw


def begin(folder: Path, lane: str, **changes: Any) -> None:
    """Train the first node to its end; ``changes`` replace fields of sections."""
    train(config_from_dict(plain(folder, lane, **changes)))
