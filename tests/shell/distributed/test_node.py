"""From a config to a node: what it shares, and the numbers of its machines."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from speedtronic.errors import RunError
from speedtronic.pure.config import Config, Distributed
from speedtronic.pure.outer import OuterRule
from speedtronic.pure.round.rule import RoundRule
from speedtronic.pure.tree import evolve
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.distributed.node import (
    join,
    lease_s,
    poll_s,
    round_rule,
    shared_weights,
    start_node,
)
from speedtronic.shell.lanes.directory import DirectoryLane
from speedtronic.shell.models import register_model
from speedtronic.shell.rundir import LEFT_BY_A_RUN
from speedtronic.shell.session import Session, build_session

BATCH = {"x": torch.ones(4, 2), "y": torch.ones(4, 2)}


class Statistics(nn.Module):
    """A model with running statistics, and a table that no file needs."""

    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)
        self.register_buffer("table", torch.ones(3), persistent=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return ((self.norm(self.linear(x)) - y) ** 2).mean()


register_model("test-statistics", Statistics)


def config(folder: Path, **section: Any) -> Config:
    """A node of a run with that model."""
    return config_from_dict(
        {
            "run": {"name": "r", "output_dir": str(folder), "device": "cpu"},
            "model": {"name": "test-statistics"},
            "precision": {"mode": "fp32"},
            "distributed": {
                "enabled": True,
                "role": "master",
                "node_id": "a",
                "lane": f"dir:{folder / 'lane'}",
                **section,
            },
        }
    )


def session_of(node: Config) -> Session:
    """What it trains with."""
    return build_session(node, BATCH)


def test_running_statistics_are_shared_or_kept(tmp_path: Path) -> None:
    """As the config says; what no saved model holds is never shared."""
    averaged, local = config(tmp_path), config(tmp_path, buffers="local")
    session = session_of(averaged)
    found = shared_weights(averaged, session, session.initial)
    kept = shared_weights(local, session, session.initial)

    statistics = {"running_mean", "running_var", "num_batches_tracked"}
    assert {f"norm.{name}" for name in statistics} == found.buffers.keys()
    assert (found.params, {}) == (kept.params, kept.buffers)


def test_local_statistics_are_of_another_run(tmp_path: Path) -> None:
    """All nodes agree on what is shared."""
    first = config(tmp_path)
    join(first, session_of(first), "data")
    with_others = config(tmp_path, buffers="local")
    session = session_of(with_others)
    one = join(first, session_of(first), "data").lineage
    other = join(with_others, session, "data").lineage
    assert one != other


def test_a_wait_belongs_to_the_kind_of_lane() -> None:
    """A look at a folder costs nothing, one at the Hub a request."""
    folder, hub = Distributed(lane="dir:x"), Distributed(repo_id="a/b")
    assert (0.5, 60.0) == (poll_s(folder), lease_s(folder))
    assert (60.0, 600.0) == (poll_s(hub), lease_s(hub))
    own = Distributed(lane="hub:a/b", poll_interval=3, lease=9)
    assert (3.0, 9.0) == (poll_s(own), lease_s(own))


def test_the_rule_is_that_of_the_config() -> None:
    """Every number of it."""
    section = Distributed(
        aggregate="token_mean",
        staleness_discount=True,
        outer_lr=0.4,
        outer_momentum=0.2,
        nesterov=False,
    )
    outer = OuterRule(learning_rate=0.4, momentum=0.2, nesterov=False)
    expected = RoundRule(aggregate="token_mean", discount=True, outer=outer)
    assert expected == round_rule(section)


def test_a_robust_rule_comes_with_its_numbers() -> None:
    """Those of other rules, too; a manifest leaves them out."""
    section = Distributed(
        aggregate="multi_krum",
        aggregate_faulty=2,
        aggregate_clip=0.5,
        aggregate_cap=3.0,
    )
    rule = RoundRule(aggregate="multi_krum", faulty=2, clip=0.5, cap=3.0)

    assert rule == round_rule(section)


@pytest.mark.parametrize("role", ["master", "auto", "worker"])
def test_only_a_master_has_a_first_model(tmp_path: Path, role: str) -> None:
    """And a worker never leads; whoever belongs to a run begins no other."""
    first = config(tmp_path)
    session = session_of(first)
    join(first, session, "data")
    node = config(tmp_path, role=role)
    (run := tmp_path / "r").mkdir()
    started = start_node(node, session, join(node, session, "data"), run, None)
    begins = started.master is not None and started.master.settings.genesis is not None
    assert (role != "worker", role == "master", role == "master") == (
        started.master is not None,
        begins,
        started.worker.settings.begins,
    )
    (run / "round.json").write_text('{"run": "0123456789abcdef"}\n')
    again = start_node(node, session, join(node, session, "data"), run, None)
    assert not again.worker.settings.begins
    assert again.master is None or again.master.settings.genesis is None


def test_a_damaged_membership_is_told(tmp_path: Path) -> None:
    """It must not be taken for none, or the node could begin a second run."""
    node = config(tmp_path)
    session = session_of(node)
    joined = join(node, session, "data")
    (run := tmp_path / "r").mkdir()
    (run / "round.json").write_text("{")
    with pytest.raises(RunError, match=r"round\.json is damaged"):
        start_node(node, session, joined, run, None)


def test_the_shared_part_is_of_the_state_that_is_asked_about(tmp_path: Path) -> None:
    """It is not copied."""
    node = config(tmp_path)
    session = session_of(node)
    weight = torch.zeros(2, 2)
    params = session.initial.params | {"linear.weight": weight}
    state = evolve(session.initial, params=params)
    assert weight is shared_weights(node, session, state).params["linear.weight"]


def test_a_lane_inside_the_run_folder_is_left_alone(tmp_path: Path) -> None:
    """As a swarm's is, which has the name of a run that trained alone."""
    node = config(tmp_path)
    session = session_of(node)
    joined = join(node, session, "data")
    own = tmp_path / "r" / "lane"
    DirectoryLane.create(own).commit({"a": b"1"}, parent=None)
    start_node(node, session, joined, tmp_path / "r", None)
    assert None is not DirectoryLane(own).head()
    assert "lane" not in LEFT_BY_A_RUN
