"""Immutable states as pytrees."""

import copy

import attrs
import pytest
import torch
from torch import Tensor

from speedtronic.pure.tree import (
    check_same,
    evolve,
    global_norm,
    leaves,
    named_leaves,
    state,
    static,
    tree_map,
)


@state
class Point:
    """A state with a leaf, a subtree and a static field."""

    x: Tensor
    more: dict[str, Tensor]
    name: str = static(default="p")


def point() -> Point:
    return Point(x=torch.ones(2), more={"a": torch.zeros(1)})


def test_a_state_cannot_be_changed() -> None:
    """Assignment is refused."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        point().x = torch.zeros(2)  # type: ignore[misc]


def test_evolve_makes_a_copy() -> None:
    """The original keeps its field."""
    first = point()
    second = evolve(first, x=torch.zeros(2))

    assert torch.equal(torch.ones(2), first.x)
    assert torch.equal(torch.zeros(2), second.x)


def test_a_missing_and_an_unknown_field_are_named() -> None:
    """Both in one message."""
    with pytest.raises(TypeError, match=r"missing=\['more'\], unknown=\['y'\]"):
        Point(x=torch.ones(1), y=torch.ones(1))  # type: ignore[call-arg]


def test_static_fields_are_part_of_the_shape() -> None:
    """They are no leaves, and are kept by maps and copies."""
    named = tree_map(lambda t: t + 1, evolve(point(), name="q"))

    assert "q" == named.name == copy.deepcopy(named).name
    assert [".x", ".more['a']"] == list(named_leaves(named))


def test_states_go_through_vmap_and_grad() -> None:
    """They are trees to every transform."""
    double = torch.vmap(lambda p: evolve(p, x=2 * p.x))
    stacked = tree_map(lambda t: torch.stack([t, t]), point())

    assert torch.equal(2 * torch.ones(2, 2), double(stacked).x)
    slope = torch.func.grad(lambda p: (p.x**2).sum())(point())
    assert torch.equal(2 * torch.ones(2), slope.x)


def test_states_are_built_inside_one_graph() -> None:
    """Constructor and evolve trace without a break."""
    step = torch.compile(
        lambda p: leaves(Point(x=evolve(p, x=p.x + 1).x, more=p.more)),
        fullgraph=True,
        backend="eager",
    )

    assert torch.equal(2 * torch.ones(2), step(point())[0])


def test_the_norm_of_nothing_is_zero() -> None:
    """A tree without leaves."""
    assert torch.tensor(0.0) == global_norm({})


def test_a_difference_is_told_with_its_path() -> None:
    """Shapes, dtypes and missing leaves together."""
    other = evolve(point(), x=torch.ones(2, dtype=torch.float64), more={})
    with pytest.raises(
        ValueError, match=r"p.more\['a'\] is missing; p.x is float64\[2\], expected"
    ):
        check_same("p", point(), other)
