"""Attempts of a pretended run as processes that cannot reach a tracker's service."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Attempt = Callable[..., str]


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """Run one attempt; returns what it said on both streams.

    The environment has no key, a home of its own, and proxies that lead nowhere.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WANDB_", "TRACKIO_", "HF_", "HUGGING"))
    }
    environment |= {
        "HOME": str(tmp_path),
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "HTTP_PROXY": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }

    def run(
        tracker: str, after: int, last: int, *, kill: bool = False, **extra: str
    ) -> str:
        script = Path(__file__).with_name("attempt.py")
        arguments = [tracker, tmp_path / "run", after, last, *(["kill"] * kill)]
        done = subprocess.run(
            [sys.executable, script, *map(str, arguments)],
            env=environment | extra,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        said = done.stdout + done.stderr
        assert (-signal.SIGKILL if kill else 0) == done.returncode, said
        return said

    return run
