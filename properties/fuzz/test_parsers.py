"""Whatever others wrote: a value or a documented error, in bounded work, and no more.

Run with ``-s`` to see how many different inputs each parser got.
"""

import os
import sys
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties.fuzz import (
    data_targets,
    disk_targets,
    round_targets,
    signed_targets,
    text_targets,
)
from properties.fuzz.arena import Arena
from properties.fuzz.made import MADE
from properties.fuzz.target import Target

from speedtronic.pure.round import plain

MODULES = (text_targets, round_targets, signed_targets, disk_targets, data_targets)
TARGETS: dict[str, Target] = {t.name: t for m in MODULES for t in m.TARGETS}
SOAK = os.environ.get("HYPOTHESIS_PROFILE", "ci") == "soak"
INPUTS = 1500 if SOAK else 80  # of each parser
EXPECTED = 20_000 if SOAK else 2_000  # different ones, of all parsers
seen: dict[str, set[bytes]] = defaultdict(set)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return Arena(tmp_path_factory.mktemp("fuzz"))


WHOLE = {  # what is changed, as it is before
    "manifest": round_targets.CONTENT["manifest.json"],
    "header": plain.encode(round_targets.header_values()),
    "record": plain.encode(round_targets.record_values()),
    "run file and join": round_targets.seal(round_targets.RUN),
    "newest manifest of a lane": round_targets.CONTENT["manifest.json"],
    "kept manifest of a lane": round_targets.CONTENT[round_targets.KEPT],
    "roster": plain.encode(signed_targets.ROSTER),
    "manifest, signed by a leader": signed_targets.DATA,
    "manifest, signed by nobody": signed_targets.DATA,
    "key": signed_targets.PEM,
    "tensors": MADE["lane"]["delta"],
    "delta": MADE["lane"]["delta"],
    "global model": MADE["lane"]["model.safetensors"],
    "manifest of a checkpoint": MADE["checkpoint"]["manifest.json"],
    "values of a checkpoint": MADE["checkpoint"]["state.json"],
    "tensors of a checkpoint": MADE["checkpoint"]["state.safetensors"],
    "checkpoint on a lane": MADE["checkpoint"]["manifest.json"],
    "record of a run": MADE["run"]["run.json"],
    "config.json beside weights": MADE["hub"]["config.json"],
    "store.json": MADE["store"]["store.json"],
    "store on a lane": data_targets.PUSHED[data_targets.PARTS],
    "documents of a store": MADE["store"]["documents.bin"],
    "token file, npy": data_targets.NPY,
    "token file, safetensors": data_targets.TOKENS,
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_not_changed_is_accepted(name: str, arena: Arena) -> None:
    """Or the attack would end at the door."""
    TARGETS[name].parse(WHOLE[name], arena)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=INPUTS)
@given(seed=st.integers(0, 2**64 - 1))
def test_a_value_or_a_documented_error(name: str, seed: int, arena: Arena) -> None:
    """Never another exception, a file outside of the root, or a program."""
    before = Path.cwd()
    os.chdir(arena.root)
    try:
        seen[name].add(TARGETS[name].attack(Random(seed), arena))
    finally:
        os.chdir(before)


def test_there_were_enough_inputs() -> None:
    """Different ones only; run by itself, this test counts nothing."""
    if seen.keys() != TARGETS.keys():
        pytest.skip("not all parsers were attacked in this process")
    counts = {name: len(inputs) for name, inputs in seen.items()}
    sys.stdout.write(f"\n{sum(counts.values())} inputs: {counts}\n")
    assert min(counts.values()) > INPUTS // 2
    assert sum(counts.values()) >= EXPECTED
