"""Who a node is, and whether it computes what the other nodes of its run compute."""

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config
from speedtronic.pure.config.fields import shared
from speedtronic.pure.data.position import node_share
from speedtronic.pure.delta import Weights
from speedtronic.pure.round import names, plain
from speedtronic.shell import blobs
from speedtronic.shell.data.tokenizers import tokenizer_content

ALONE = "node-0"
NODE_VARIABLE = "SPEEDTRONIC_NODE_ID"
NOT_AGREED = ("run.name", "model.init_from")  # a resumed run keeps them, others differ


def node_name(config: Config) -> str:
    """The node's name: of the config, else of the environment, else of the host.

    Raises:
        ConfigError: it cannot be a node's name; with where it came from.
    """
    given = config.distributed.node_id or os.environ.get(NODE_VARIABLE)
    if not given:  # launchers export empty variables
        host = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node())[:60].strip("._-")
        return host if names.is_node(host) else ALONE
    where = "distributed.node_id" if config.distributed.node_id else NODE_VARIABLE
    try:
        return names.check_node(given)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def this_node() -> str:
    """The name of a node here that no config names.

    Raises:
        ConfigError: the environment has one that cannot be a node's.
    """
    return node_name(Config())


def told_name(config: Config) -> str:
    """The name under which a run tells of itself; alone it needs none.

    >>> told_name(Config())
    'node-0'
    """
    section = config.distributed
    return node_name(config) if section.enabled else section.node_id or ALONE


def data_share(config: Config) -> dict[str, Any]:
    """Which part of the data a node reads, as arguments of `open_data`.

    Nodes that the config names share each epoch. Where it names none, a node reads all
    data in an order of its own.
    """
    section = config.distributed
    if not section.enabled:
        return {}
    name = node_name(config)
    if not section.collaborators:
        return {"node": name, "nodes": None}
    share = node_share(name, section.collaborators)
    return {"node": share.node, "nodes": share.nodes}


def recipe(
    config: Config, fingerprint: str, weights: Weights, frozen: Mapping[str, Tensor]
) -> dict[str, Any]:
    """Everything that the nodes of a run must agree on, as plain JSON values.

    Where a node has its files is its own matter: a tokenizer is named by its content,
    and of first weights only those count that are never trained.

    Args:
        config: of this node.
        fingerprint: of its data.
        weights: the shared model; only names, shapes and dtypes are looked at.
        frozen: parameters that are not trained; they are named by their bytes, and
            never travel.
    """
    agreed = shared(config)
    for own in NOT_AGREED:
        del agreed[own]
    agreed["data.tokenizer"] = tokenizer_content(config.data.tokenizer)
    return {
        "config": agreed,
        "data": fingerprint,
        "model": {
            f"{part}.{name}": f"{x.dtype}{list(x.shape)}".removeprefix("torch.")
            for part in ("params", "buffers")
            for name, x in sorted(getattr(weights, part).items())
        },
        "frozen": frozen_sum(frozen) if frozen else None,
    }


def lineage_of(recipe: Mapping[str, Any]) -> str:
    """The hash that stands in every header and manifest of a run."""
    return plain.digest(dict(recipe))


def frozen_sum(frozen: Mapping[str, Tensor]) -> str:
    """The sha256 of frozen parameters, by name.

    >>> import torch
    >>> frozen_sum({"w": torch.ones(2)})[:16]
    '5c9b645c5949540d'
    """
    total = hashlib.sha256()
    for name, x in sorted(frozen.items()):
        total.update(f"{name} {x.dtype} {list(x.shape)}\n".encode())
        total.update(blobs.bytes_of(x))
    return total.hexdigest()


def disagreements(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """In what a node's recipe differs from its run's, one line each.

    >>> run = {"config": {"optimizer.lr": 0.1}, "data": "x", "model": {}}
    >>> disagreements({**run, "config": {"optimizer.lr": 0.2}}, run)
    ["optimizer.lr: the run has 0.1, this node's config 0.2"]
    """
    told = []
    mine, run = ours["config"], theirs["config"]
    for path in sorted(mine.keys() | run.keys()):
        if mine.get(path) != run.get(path):
            found = f"{run.get(path)!r}, this node's config {mine.get(path)!r}"
            told.append(f"{path}: the run has {found}")
    for part, what in (
        ("data", "the data differs"),
        ("model", "the model has other tensors"),
        ("frozen", "the frozen parameters have other bytes"),
    ):
        if ours.get(part) != theirs.get(part):
            told.append(f"{what} than the run's")
    return told
