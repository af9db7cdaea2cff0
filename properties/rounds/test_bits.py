"""The same bits on any CPU: real processes with other instruction sets and threads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

PROGRAM = Path(__file__).with_name("fingerprint.py")
CAPABILITIES = ("default", "avx2", "avx512")  # each includes those before


def capabilities() -> tuple[str, ...]:
    """What this CPU can be asked for."""
    best = torch.backends.cpu.get_cpu_capability().lower()
    if best not in CAPABILITIES:
        return (best,)
    return CAPABILITIES[: CAPABILITIES.index(best) + 1]


def test_a_round_has_the_same_bits_everywhere() -> None:
    """Aggregation, outer step and norms, over tensors of a million elements."""
    seen = {}
    for capability in capabilities():
        for threads in ("1", "2"):
            done = subprocess.run(
                [sys.executable, str(PROGRAM), threads],
                env=os.environ
                | {"ATEN_CPU_CAPABILITY": capability, "OMP_WAIT_POLICY": "passive"},
                capture_output=True,
                text=True,
            )
            assert 0 == done.returncode, (capability, threads, done.stderr)
            seen[capability, threads] = json.loads(done.stdout)
    first, *others = seen.values()
    for other in others:
        assert first == other
    assert 11 == len(first) == len({tuple(told.values()) for told in first.values()})
