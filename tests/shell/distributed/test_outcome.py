"""What a run came to."""

from pathlib import Path

import pytest
from tests.shell.test_meeting import config

from speedtronic.errors import RunError
from speedtronic.shell.distributed.outcome import Outcome, evaluate_global
from speedtronic.shell.evaluate import Evaluation
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.train import train


def test_the_newest_global_model_is_judged(tmp_path: Path) -> None:
    """That of a lone node with a plain step is what the node ended with."""
    section = {"outer_lr": 1.0, "outer_momentum": 0.0}
    node = config(tmp_path, "r", distributed=section)
    result = train(node)
    found = evaluate_global(node, f"dir:{tmp_path / 'r-lane'}")

    assert 1 == found.round
    assert result.validation_loss is not None
    assert found.validation_loss == pytest.approx(result.validation_loss, abs=1e-5)


def test_a_lane_without_a_run_has_none(tmp_path: Path) -> None:
    """It may not have begun."""
    lane = f"dir:{tmp_path / 'lane'}"
    parse_lane(lane, create=True)
    with pytest.raises(RunError, match="holds no run yet"):
        evaluate_global(config(tmp_path, "r"), lane)


def test_a_line_says_it() -> None:
    """Also where nothing is held out."""
    some = Evaluation(loss=1.5, targets=9, bits_per_byte=None)
    assert "global model round=3 lane=dir:x validation_loss=1.5" == (
        Outcome(round=3, evaluation=some).line("dir:x")
    )
    assert Outcome(round=0, evaluation=None).line("x").endswith("validation_loss=null")
