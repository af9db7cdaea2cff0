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
    disk_targets,
    round_targets,
    signed_targets,
    text_targets,
)
from properties.fuzz.arena import Arena
from properties.fuzz.target import Target

MODULES = (text_targets, round_targets, signed_targets, disk_targets)
TARGETS: dict[str, Target] = {t.name: t for m in MODULES for t in m.TARGETS}
SOAK = os.environ.get("HYPOTHESIS_PROFILE", "ci") == "soak"
INPUTS = 1500 if SOAK else 80  # of each parser
EXPECTED = 20_000 if SOAK else 2_000  # different ones, of all parsers
seen: dict[str, set[bytes]] = defaultdict(set)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return Arena(tmp_path_factory.mktemp("fuzz"))


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
