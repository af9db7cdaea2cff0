"""Whether a run fits into the commits of its repository."""

from pathlib import Path
from typing import Any

import pytest

from speedtronic.pure.config import Config, Distributed, Run
from speedtronic.shell.commits import CommitAdvice, commit_advice


def advice(
    folder: Path, step_s: float | None = None, **changes: Any
) -> CommitAdvice | None:
    """On a run on the Hub."""
    fields: dict[str, Any] = {
        "enabled": True,
        "role": "worker",
        "lane": "hub:me/run",
        "inner_steps": 100,
        **changes,
    }
    config = Config(run=Run(output_dir=str(folder)), distributed=Distributed(**fields))
    return commit_advice(config, step_s)


def test_only_the_hub_rations(tmp_path: Path) -> None:
    """A folder does not, nor is a run alone on anything."""
    assert advice(tmp_path, lane="dir:lane") is None
    assert advice(tmp_path, enabled=False) is None


@pytest.mark.parametrize(
    ("step_s", "others", "fits", "told"),
    [
        (2.0, ("a", "b"), True, "a step takes 2 s (given): 3 nodes make 72 of 128"),
        (2.0, (), True, "128 commits an hour do for 6 nodes"),
        (0.1, ("a", "b"), False, "raise distributed.inner_steps from 100 to 1125"),
        (0.1, (), False, "2 nodes with a round every 10 s"),
        (None, ("a", "b"), None, "enough for 3 nodes at 1.12 s a step or slower; how"),
        (None, (), None, "for 2 nodes at 0.844 s a step and 8 nodes at 2.62 s"),
    ],
)
def test_what_is_known_is_told(
    tmp_path: Path,
    step_s: float | None,
    others: tuple[str, ...],
    fits: bool | None,
    told: str,
) -> None:
    """With the step and the nodes, or for those that would do."""
    found = advice(tmp_path, step_s, collaborators=others)

    assert found is not None
    assert fits is found.fits
    assert told in str(found)


def test_what_is_not_measured_is_said(tmp_path: Path) -> None:
    """With how to measure it."""
    found = advice(tmp_path)

    assert found is not None
    assert "how long a step takes is not measured here" in found.told
    assert "speedtronic plan measures it, --step-seconds tells it" == found.remedy


def test_a_lease_that_leaves_no_commits(tmp_path: Path) -> None:
    """Whatever a step takes."""
    found = advice(tmp_path, lease=30.0)

    assert found is not None
    assert (False, "make distributed.lease longer") == (found.fits, found.remedy)
