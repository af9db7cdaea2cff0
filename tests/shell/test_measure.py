"""Timed steps, and the speed of a link."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config
from speedtronic.shell import measure as measuring
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.lanes import parse_lane
from speedtronic.shell.measure import (
    LEAST,
    WARM_UP,
    known_step_s,
    measure,
    measured_bits_per_s,
)
from speedtronic.shell.metrics import start_log
from speedtronic.shell.paths import run_folder
from speedtronic.testing.records import example_record
from speedtronic.testing.runs import recorded_run


def config(folder: Path, **run: Any) -> Config:
    """A small model on made-up tokens."""
    return config_from_dict(
        {
            "run": {"device": "cpu", "output_dir": str(folder / "runs"), **run},
            "model": {
                "n_layer": 1,
                "d_model": 16,
                "n_head": 2,
                "max_seq_len": 8,
                "vocab_size": 32,
            },
            "data": {"num_tokens": 500, "target_batch_size": 2},
            "distributed": {
                "enabled": True,
                "role": "master",
                "lane": f"dir:{folder / 'lane'}",
            },
        }
    )


def ticks(*steps: float) -> Iterator[float]:
    """Two looks at a clock for each step; after the last, every step is like it."""
    now_s = 0.0
    for number in count():
        yield now_s
        now_s += steps[min(number, len(steps) - 1)]
        yield now_s


def test_a_step_is_the_median_without_the_first(tmp_path: Path) -> None:
    """Compiling and one interruption do not count."""
    clock = ticks(60.0, 9.0, 1.0, 8.0, 1.25, 1.25)
    found = measure(config(tmp_path), clock=lambda: next(clock))

    assert LEAST == found.steps
    assert 1.25 == found.machine.step_s
    assert ("cpu", "fp32") == (found.device, found.precision)
    assert 16 == found.machine.tokens


def test_fast_steps_are_measured_for_longer(tmp_path: Path) -> None:
    """Until there is enough of them."""
    clock = ticks(*[0.25] * WARM_UP, 0.25)
    found = measure(config(tmp_path), clock=lambda: next(clock))

    assert 12 == found.steps


def test_a_delta_is_as_large_as_the_model(tmp_path: Path) -> None:
    """In float32; without momentum there is none to publish."""
    clock = ticks(10.0)
    plain = config(tmp_path)
    found = measure(plain, clock=lambda: next(clock)).machine
    section = attrs.evolve(plain.distributed, outer_momentum=0.0)
    none = measure(
        attrs.evolve(plain, distributed=section), clock=lambda: next(clock)
    ).machine

    assert found.delta_bytes == found.global_bytes == found.momentum_bytes
    assert 0 == found.delta_bytes % 4 < found.delta_bytes
    assert (0, found.delta_bytes) == (none.momentum_bytes, none.delta_bytes)


@pytest.mark.parametrize("minutes", [None, 5.0])
def test_nothing_is_begun(tmp_path: Path, minutes: float | None) -> None:
    """No run folder and no lane, also where time bounds the run."""
    clock = ticks(10.0)
    measure(config(tmp_path, max_minutes=minutes), clock=lambda: next(clock))

    assert [] == [p for p in tmp_path.rglob("*") if p.is_file()]


def test_what_cannot_be_trained_cannot_be_measured(tmp_path: Path) -> None:
    """In the words of `train`."""
    plain = config(tmp_path)
    broken = attrs.evolve(plain, model=attrs.evolve(plain.model, freeze=("nothing",)))
    with pytest.raises(ConfigError, match="nothing"):
        measure(broken)


def test_a_link_is_measured_by_the_global(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the run on the lane, if there is one."""
    lane = parse_lane(f"dir:{tmp_path / 'lane'}", create=True)
    assert measured_bits_per_s(f"dir:{tmp_path / 'lane'}") is None
    manifest = recorded_run(lane, rounds=1)
    clock = ticks(0.5)
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: next(clock))

    expected = 16 * manifest.weights.bytes
    assert expected == measured_bits_per_s(f"dir:{tmp_path / 'lane'}")
    assert measured_bits_per_s(f"dir:{tmp_path / 'nowhere'}") is None
    with pytest.raises(ConfigError):
        measured_bits_per_s("nowhere")


def test_a_run_tells_how_long_its_steps_took(tmp_path: Path) -> None:
    """The median between records; a compiled one and the first say nothing."""
    plain = config(tmp_path)
    assert known_step_s(plain) is None
    path = run_folder(plain) / "metrics.jsonl"
    path.parent.mkdir(parents=True)
    with start_log(path, every=1, last_step=None) as log:
        for step, seconds, compiling in [
            (10, 99.0, 0.0),
            (20, 4.0, 0.0),
            (30, 1.0, 50.0),
            (40, 6.0, 0.0),
            (50, 5.0, 0.0),
        ]:
            log.write(
                example_record(
                    step,
                    data_seconds=1.0,
                    compute_seconds=seconds,
                    compile_seconds=compiling,
                )
            )

    assert 0.6 == known_step_s(plain)
