"""Muon's iteration: what singular values become."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from properties.optim.strategies import seeds

from speedtronic.pure.optim.base import Clock
from speedtronic.pure.optim.muon import (
    POLAR_EXPRESS_MARGIN,
    iteration_coefficients,
    orthogonalize,
    scale_by_muon,
    shape_adjustment,
)

sizes = st.integers(1, 24)


def random(seed: int, rows: int, columns: int, num: int = 2) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(num, rows, columns, generator=made)


def polar_express(
    matrices: torch.Tensor,
    eps: float = 1e-7,
    iteration_dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    triples = iteration_coefficients("polar_express", 5)
    return orthogonalize(matrices, triples, eps, POLAR_EXPRESS_MARGIN, iteration_dtype)


dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


def with_values(seed: int, size: int, smallest: float) -> torch.Tensor:
    """A square matrix with singular values from ``smallest`` to 1."""
    u, _ = torch.linalg.qr(random(seed, size, size, 1))
    v, _ = torch.linalg.qr(random(seed + 1, size, size, 1))
    return u @ torch.linspace(smallest, 1.0, size).diag() @ v


@dtypes
@given(seeds, sizes, sizes)
def test_no_singular_value_is_far_above_one(
    dtype: torch.dtype, seed: int, rows: int, columns: int
) -> None:
    """Whatever the matrix: at most 1.25, the largest value of the last polynomials."""
    for iterate in (orthogonalize, polar_express):
        result = iterate(random(seed, rows, columns), iteration_dtype=dtype)
        assert torch.linalg.svdvals(result).max() < 1.25


@dtypes
@given(seeds, st.integers(1, 16), st.floats(0.05, 1.0))
def test_singular_values_come_near_one(
    dtype: torch.dtype, seed: int, size: int, smallest: float
) -> None:
    """From a condition number of 20: 0.65 to 1.25, with Polar Express 0.8 to 1.2.

    In bfloat16, too: it is as good, whatever single numbers come to.
    """
    matrix = with_values(seed, size, smallest)

    values = torch.linalg.svdvals(orthogonalize(matrix, iteration_dtype=dtype))
    assert 0.65 < values.min() and values.max() < 1.25
    values = torch.linalg.svdvals(polar_express(matrix, iteration_dtype=dtype))
    assert 0.8 < values.min() and values.max() < 1.2


@given(seeds, sizes, sizes)
def test_transposition_commutes(seed: int, rows: int, columns: int) -> None:
    """A tall matrix is treated as its wide transpose."""
    matrix = random(seed, rows, columns)

    torch.testing.assert_close(
        orthogonalize(matrix).mT, orthogonalize(matrix.mT), rtol=1e-3, atol=1e-4
    )


@given(seeds, sizes, sizes, st.floats(1e-3, 1e3))
def test_scale_does_not_matter(
    seed: int, rows: int, columns: int, factor: float
) -> None:
    """Only directions are looked at: clipping cannot change one step of Muon."""
    matrix = random(seed, rows, columns)

    torch.testing.assert_close(
        orthogonalize(matrix), orthogonalize(factor * matrix), rtol=1e-3, atol=1e-4
    )


@given(seeds, st.integers(2, 12))
def test_rotations_commute(seed: int, size: int) -> None:
    """Turning the matrix turns the result."""
    matrix = random(seed, size, size)
    rotation, _ = torch.linalg.qr(random(seed + 1, size, size, 1))

    torch.testing.assert_close(
        rotation @ orthogonalize(matrix),
        orthogonalize(rotation @ matrix),
        rtol=1e-3,
        atol=1e-4,
    )


@pytest.mark.parametrize("iterate", [orthogonalize, polar_express])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(-45, 10))
def test_zero_and_tiny_stay_finite(
    iterate: object, dtype: torch.dtype, rows: int, columns: int, exponent: int
) -> None:
    """Zero stays zero; below ``eps`` a matrix is not blown up to norm one."""
    zero = torch.zeros(1, rows, columns)
    assert torch.equal(zero, orthogonalize(zero, iteration_dtype=dtype))
    tiny = orthogonalize(zero + 10.0**exponent, iteration_dtype=dtype)
    assert bool(torch.isfinite(tiny).all())
    assert torch.linalg.matrix_norm(tiny).max() < 1.3


@given(st.integers(1, 512), st.integers(1, 512))
def test_adjustments_bound_the_update(rows: int, columns: int) -> None:
    """With ``match_rms_adamw`` the entries of an orthogonal update have RMS 0.2."""
    rank = min(rows, columns)
    rms = (rank / (rows * columns)) ** 0.5

    assert 0.2 == pytest.approx(
        shape_adjustment("match_rms_adamw", rows, columns) * rms
    )
    assert 1.0 <= shape_adjustment("original", rows, columns)


@given(seeds, st.integers(1, 9), st.integers(1, 9))
def test_a_rule_only_scales(seed: int, rows: int, columns: int) -> None:
    """Updates by either rule are those of the other, times what both are asked for."""
    grads = {"w": random(seed, rows, columns, 1)[0]}
    clock, found = Clock(step=torch.tensor(0)), {}
    for rule in ("original", "match_rms_adamw"):
        direction = scale_by_muon(adjust=rule)
        updates, _ = direction.update(grads, direction.init(grads), grads, clock)
        found[rule] = updates["w"] / shape_adjustment(rule, rows, columns)

    torch.testing.assert_close(*found.values(), rtol=1e-5, atol=1e-7)


@given(seeds, st.integers(1, 9), st.integers(1, 9))
def test_a_step_commutes_with_transposition(seed: int, rows: int, columns: int) -> None:
    """By the rule that does not tell rows from columns."""
    matrix = random(seed, rows, columns, 1)[0]
    clock = Clock(step=torch.tensor(0))
    direction = scale_by_muon(adjust="match_rms_adamw", coefficients="polar_express")

    def update(w: torch.Tensor) -> torch.Tensor:
        return direction.update({"w": w}, direction.init({"w": w}), {}, clock)[0]["w"]

    torch.testing.assert_close(
        update(matrix), update(matrix.mT).mT, rtol=1e-4, atol=1e-5
    )
