"""A node's name, its share of the data, and what it must agree on with its run."""

from pathlib import Path
from typing import Any

import attrs
import pytest
import torch

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config, Distributed
from speedtronic.pure.delta import Weights
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.distributed import identity
from speedtronic.shell.distributed.identity import (
    NODE_VARIABLE,
    data_share,
    disagreements,
    frozen_sum,
    lineage_of,
    node_name,
    recipe,
)

WEIGHTS = Weights(params={"w": torch.ones(2)}, buffers={"n": torch.tensor(1)})


def of(**sections: Any) -> dict[str, Any]:
    """The recipe of a config."""
    return recipe(config_from_dict(sections), "the data", WEIGHTS, {})


def named(node: str | None) -> Config:
    """A config with a node's name."""
    return Config(distributed=Distributed(node_id=node))


def test_a_name_comes_from_the_config_then_the_environment_then_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is used where the ones before say nothing."""
    monkeypatch.setattr(identity.platform, "node", lambda: "Lab PC (2nd).local")
    monkeypatch.delenv(NODE_VARIABLE, raising=False)
    assert "Lab-PC--2nd-.local" == node_name(named(None))
    monkeypatch.setenv(NODE_VARIABLE, "")  # as launchers export it
    assert "Lab-PC--2nd-.local" == node_name(named(None))
    monkeypatch.setenv(NODE_VARIABLE, "from-env")
    assert "from-env" == node_name(named(None))
    assert "from-config" == node_name(named("from-config"))


@pytest.mark.parametrize(
    "host",
    ["", "---", "\u00e4", "con", "AUX", "nul.local"],
    ids=["none", "dashes", "umlaut", "con", "aux", "nul"],
)
def test_a_host_without_a_usable_name_is_node_0(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """A name of nothing but signs is none, and neither is that of a device."""
    monkeypatch.delenv(NODE_VARIABLE, raising=False)
    monkeypatch.setattr(identity.platform, "node", lambda: host)
    assert "node-0" == node_name(named(None))


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "x" * 65, "CON.", "a b"])
def test_a_name_that_is_none_is_refused_wherever_it_comes_from(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It becomes part of a path on the lane."""
    monkeypatch.setenv(NODE_VARIABLE, name)
    with pytest.raises(ConfigError, match=NODE_VARIABLE):
        node_name(named(None))


def test_what_belongs_to_a_node_is_not_part_of_the_lineage() -> None:
    """Nodes of one run differ in device, precision, batch, paths and own steps."""
    own = of(
        run={"device": "cpu", "output_dir": "elsewhere", "name": "other", "threads": 2},
        precision={"mode": "bf16"},
        data={"micro_batch_size": 3, "target_batch_size": 6, "num_workers": 2},
        compile={"enabled": True},
        distributed={"inner_steps": 7, "role": "worker", "node_id": "b", "grace": 1},
        logging={"every_steps": 9},
    )
    assert lineage_of(of()) == lineage_of(own)


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": {"lr": 0.5}},
        {"run": {"seed": 5}},
        {"model": {"d_model": 64}},
        {"distributed": {"outer_lr": 0.5}},
        {"distributed": {"staleness": 4}},
        {"data": {"block_size": 8}},
    ],
    ids=["lr", "seed", "model", "outer", "staleness", "data"],
)
def test_what_belongs_to_the_run_is(change: dict[str, Any]) -> None:
    """And the difference is told with both values."""
    other = of(**change)
    [(section, fields)] = change.items()
    [(name, value)] = fields.items()
    assert lineage_of(of()) != lineage_of(other)
    [line] = disagreements(of(), other)
    assert line.startswith(f"{section}.{name}: the run has {value!r}, this node's")


def test_data_model_and_frozen_parameters_are_compared_too() -> None:
    """One line each."""
    config = Config()
    shorter = Weights(params={"w": torch.ones(1)}, buffers={})
    ours = recipe(config, "a", WEIGHTS, {"f": torch.ones(2)})
    theirs = recipe(config, "b", shorter, {"f": torch.zeros(2)})
    assert 3 == len(disagreements(ours, theirs))


def test_frozen_parameters_are_named_by_their_bytes() -> None:
    """Name, dtype and shape count as well."""
    ones = torch.ones(4)
    sums = {
        frozen_sum({"w": ones}),
        frozen_sum({"v": ones}),
        frozen_sum({"w": ones.double()}),
        frozen_sum({"w": ones.reshape(2, 2)}),
        frozen_sum({"w": torch.zeros(4)}),
    }
    assert 5 == len(sums)


def test_a_tokenizer_is_named_by_its_content(tmp_path: Path) -> None:
    """Each machine has it elsewhere; another one is another run."""
    for name, content in (("a", b"{}"), ("b", b"{}"), ("c", b"[]")):
        (tmp_path / name).write_bytes(content)
    sums = [lineage_of(of(data={"tokenizer": str(tmp_path / name)})) for name in "abc"]

    assert sums[0] == sums[1] != sums[2]


def test_first_weights_are_not_part_of_the_lineage() -> None:
    """Who joins has those of the run; what is frozen is named by its bytes."""
    assert of() == of(model={"init_from": "me/model@main"})


def test_nodes_that_are_named_share_the_data() -> None:
    """Others read all of it, each in an order of its own."""
    section = Distributed(enabled=True, node_id="b", collaborators=("c", "a"))
    assert {"node": 1, "nodes": 3} == data_share(Config(distributed=section))
    alone = attrs.evolve(section, collaborators=())
    assert {"node": "b", "nodes": None} == data_share(Config(distributed=alone))
    assert {} == data_share(Config())
