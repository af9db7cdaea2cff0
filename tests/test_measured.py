"""Tables of measured numbers: as the programs in benchmarks/ would write them now."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from speedtronic.shell.config import load_config, to_dict

ROOT = Path(__file__).parents[1]
MUON = "NorMuon, Polar Express"


@pytest.fixture
def optimizers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("optimizers")


def last_losses(module: ModuleType, steps: int) -> dict[str, float]:
    rows = module.read(module.RESULTS)
    return {
        row["name"]: row["curve"][-1]["loss"] for row in rows if row["key"][3] == steps
    }


def test_the_page_of_optimizers_shows_what_was_measured(
    optimizers: ModuleType,
) -> None:
    """Its tables are those of the results; writing them again changes nothing."""
    marked = importlib.import_module("marked")
    page = text = optimizers.PAGE.read_text("utf-8")
    rows = optimizers.read(optimizers.RESULTS)
    for steps in optimizers.LENGTHS:
        text = marked.replaced(text, f"{steps} steps", optimizers.table(rows, steps))

    assert text == page
    assert "| NorMuon" in page


def test_every_variant_is_in_the_table(optimizers: ModuleType) -> None:
    """Losing ones too."""
    assert last_losses(optimizers, 500).keys() == optimizers.VARIANTS.keys()


def test_the_published_muon_is_ahead_of_the_published_adamw(
    optimizers: ModuleType,
) -> None:
    """By 0.05 nats per byte at least, and at most 1.60, after 2 000 steps."""
    losses = last_losses(optimizers, 2000)

    assert losses[MUON] <= 1.60
    assert losses[MUON] <= losses["AdamW"] - 0.05


def test_the_published_configs_differ_in_their_optimizers_only() -> None:
    """What is compared is the optimizer."""
    adamw, muon = (
        to_dict(load_config(ROOT / "configs" / name))
        for name in ("tinyshakespeare.yaml", "tinyshakespeare-muon.yaml")
    )
    muon["run"]["name"] = adamw["run"]["name"]

    different = {name for name, section in adamw.items() if section != muon[name]}
    assert different == {"optimizer", "distributed"}


def test_the_readme_shows_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its table of peers is that of the results."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    readme, marked = map(importlib.import_module, ("readme", "marked"))
    found: dict[str, Any] = json.loads(readme.peers.RESULTS.read_text("utf-8"))
    page = readme.README.read_text("utf-8")

    assert page == marked.replaced(page, "peers", readme.text(found))
    assert {"ours", "old", "plain"} <= {row["way"] for row in found["rows"]}
