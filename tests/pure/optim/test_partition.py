"""Routing parameters to optimizers."""

import pytest
import torch

from speedtronic.pure.optim.adamw import adamw
from speedtronic.pure.optim.base import Clock, guarded_step
from speedtronic.pure.optim.partition import partition
from speedtronic.pure.optim.sgd import sgd
from speedtronic.pure.tree import named_leaves

CLOCK = Clock(step=torch.tensor(0))
PARAMS = {"a": torch.ones(2, 2), "b": torch.ones(2), "c": torch.ones(1)}
LABELS = {"a": "sgd", "b": "adamw", "c": "sgd"}
BOTH = {"sgd": sgd(0.5), "adamw": adamw(0.1)}


def test_each_parameter_follows_its_optimizer() -> None:
    """And the result has the parameters' order."""
    routed = partition(BOTH, LABELS)
    updates, _ = routed.update(PARAMS, routed.init(PARAMS), PARAMS, CLOCK)

    assert ["a", "b", "c"] == list(updates)
    torch.testing.assert_close(torch.full((2,), -0.1), updates["b"])
    torch.testing.assert_close(torch.full((2, 2), -0.5), updates["a"])


def test_the_state_holds_each_parameter_in_its_group() -> None:
    """No optimizer has moments for what it does not own."""
    paths = named_leaves(partition(BOTH, LABELS).init(PARAMS))

    assert "['adamw'][0].mean['b']" in paths
    assert not any("adamw" in path and "['a']" in path for path in paths)


def test_an_empty_group_is_fine() -> None:
    """A model without matrices has nothing for Muon."""
    routed = partition(BOTH, dict.fromkeys(PARAMS, "adamw"))
    assert routed.fused is not None
    state = routed.init(PARAMS)

    updates, _ = routed.update(PARAMS, state, PARAMS, CLOCK)
    assert list(PARAMS) == list(updates)
    one, zero = torch.tensor(1.0), torch.tensor(0.0)
    fused, _ = routed.fused(PARAMS, state, PARAMS, CLOCK, one, zero)
    assert list(PARAMS) == list(fused)


def test_groups_without_a_kernel_follow_their_formula() -> None:
    """The fused form of a partition equals its definition."""
    routed = partition(BOTH, LABELS)
    assert routed.fused is not None
    arguments = (
        PARAMS,
        routed.init(PARAMS),
        PARAMS,
        CLOCK,
        torch.tensor(2.0),
        torch.tensor(0.0),
    )

    expected = named_leaves(guarded_step(routed, *arguments))
    actual = named_leaves(routed.fused(*arguments))
    torch.testing.assert_close(expected, actual, rtol=2e-6, atol=1e-7)


def test_a_partition_without_kernels_has_none() -> None:
    """Then the guarded formula is all there is."""
    assert partition({"sgd": sgd(0.5)}, dict.fromkeys(PARAMS, "sgd")).fused is None


def test_a_label_without_an_optimizer_is_refused() -> None:
    """Where the partition is made."""
    with pytest.raises(
        ValueError, match=r"one of \['sgd', 'adamw'\], found \['lion'\]"
    ):
        partition(BOTH, {"a": "lion"})


def test_labels_cover_exactly_the_parameters() -> None:
    """Neither a forgotten nor an invented name passes."""
    with pytest.raises(ValueError, match=r"without a label: \['c'\].*: \['d'\]"):
        partition(BOTH, {"a": "sgd", "b": "sgd", "d": "sgd"}).init(PARAMS)
