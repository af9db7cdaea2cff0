"""The pseudo-gradient: sign, kinds of tensors, and what does not fit."""

import pytest
import torch
from torch import Tensor, nn

from speedtronic.pure.delta import (
    Delta,
    Weights,
    add,
    apply_delta,
    compute_delta,
    delta_problems,
    from_named,
    named,
    non_finite,
    norm,
    rebase,
    subtract,
)
from speedtronic.testing.purity import check_pure

NAN, INF = float("nan"), float("inf")


def weights(**params: Tensor) -> Weights:
    return Weights(params=params, buffers={})


def delta(**params: Tensor) -> Delta:
    return Delta(params=params, buffers={})


def test_the_sign_descends() -> None:
    """base - current: a step of size 1 along it goes to current."""
    base, current = torch.tensor([3.0, -1.0]), torch.tensor([1.0, 1.0])
    found = compute_delta(weights(w=base), weights(w=current)).params["w"]
    assert torch.equal(torch.tensor([2.0, -2.0]), found)
    assert torch.equal(current, base - found)


def test_deltas_are_float32_whatever_the_weights() -> None:
    """Each side is widened before the difference is taken."""
    base = torch.tensor([1.0], dtype=torch.bfloat16)
    current = torch.tensor([1.0078125], dtype=torch.bfloat16)
    found = compute_delta(weights(w=base), weights(w=current)).params["w"]
    assert (torch.float32, -0.0078125) == (found.dtype, found.item())
    back = apply_delta(weights(w=base), delta(w=found)).params["w"]
    assert torch.equal(current, back) and back.dtype == torch.bfloat16


def test_complex_parameters_stay_complex() -> None:
    """No halves, and an infinity in one part does not spill into the other."""
    base = torch.tensor([1 + 2j, complex(INF, 1)], dtype=torch.complex128)
    current = (
        torch.tensor([3 + 1j, complex(0, 3)], dtype=torch.complex128).conj().conj()
    )
    found = compute_delta(weights(w=base), weights(w=current)).params["w"]
    assert found.dtype == torch.complex64
    assert [-2 + 1j, complex(INF, -2)] == found.tolist()
    doubled = add(delta(w=found), delta(w=found)).params["w"]
    assert [-4 + 2j, complex(INF, -4)] == doubled.tolist()


def test_a_conjugated_view_is_its_value() -> None:
    """Torch conjugates lazily; the delta holds the numbers."""
    plain = torch.tensor([1 + 2j])
    found = compute_delta(weights(w=torch.zeros_like(plain)), weights(w=plain.conj()))
    assert [-1 + 2j] == found.params["w"].tolist()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"v": torch.ones(2)}, "params['v'] is unexpected; params['w'] is missing"),
        ({"w": torch.ones(3)}, "params['w'] is float32[3], expected float32[2]"),
        ({"w": torch.ones(2).double()}, "params['w'] is float64[2]"),
        ({}, "params['w'] is missing"),
    ],
)
def test_what_does_not_fit_is_told_by_path(
    changed: dict[str, Tensor], told: str
) -> None:
    """Names, shapes and dtypes are strict."""
    with pytest.raises(ValueError) as caught:
        compute_delta(weights(w=torch.ones(2)), weights(**changed))
    assert told in str(caught.value)


def test_integer_parameters_are_refused() -> None:
    """A difference of integers has no meaning for the outer step."""
    both = weights(q=torch.ones(2, dtype=torch.int8))
    with pytest.raises(ValueError, match=r"params\['q'\] is int8\[2\].*buffer"):
        compute_delta(both, both)


def test_changed_buffers_travel_as_values() -> None:
    """Of floats, integers and booleans; shapes and dtypes stay."""
    before = {
        "mean": torch.zeros(2, dtype=torch.float16),
        "count": torch.tensor(3),
        "seen": torch.tensor([True, False]),
        "table": torch.tensor([INF, NAN, -0.0]),
    }
    after = before | {
        "mean": torch.ones(2, dtype=torch.float16),
        "count": torch.tensor(5),
        "seen": torch.tensor([True, True]),
        "table": before["table"].clone(),
    }
    found = compute_delta(
        Weights(params={}, buffers=before), Weights(params={}, buffers=after)
    )
    assert {"mean", "count", "seen"} == found.buffers.keys()
    assert all(found.buffers[name] is after[name] for name in found.buffers)


@pytest.mark.parametrize(
    "pair",
    [
        (torch.tensor([0.0]), torch.tensor([-0.0])),
        (torch.tensor(1.0), torch.tensor(2.0)),
        (torch.tensor([1j]), torch.tensor([2j])),
        (torch.tensor([1, 2])[::1], torch.tensor([1, 0, 3, 0])[::2]),
    ],
)
def test_every_changed_bit_of_a_buffer_counts(pair: tuple[Tensor, Tensor]) -> None:
    """Also of a sign of zero, a scalar, a complex number and a view."""
    sides = [Weights(params={}, buffers={"b": x}) for x in pair]
    assert {"b"} == compute_delta(sides[0], sides[1]).buffers.keys()
    assert {} == compute_delta(sides[0], sides[0]).buffers


def test_an_empty_tensor_and_an_empty_model_are_fine() -> None:
    """Nothing to say is said without error."""
    empty = Weights(params={"w": torch.zeros(0, 3)}, buffers={"b": torch.zeros(0)})
    found = compute_delta(empty, empty)
    assert [0, 3] == list(found.params["w"].shape)
    assert {} == found.buffers
    assert 0.0 == norm(found).item() == norm(delta()).item()


def test_what_is_left_after_a_cut_goes_on_top_of_the_new_global() -> None:
    """Progress after the cut is kept, what the cut held is not counted again."""
    base, new = weights(w=torch.tensor([10.0])), weights(w=torch.tensor([20.0]))
    cut = compute_delta(base, weights(w=torch.tensor([8.0])))
    whole = compute_delta(base, weights(w=torch.tensor([7.0])))
    assert [19.0] == rebase(new, subtract(whole, cut)).params["w"].tolist()
    assert torch.equal(whole.params["w"], add(cut, subtract(whole, cut)).params["w"])


def test_rebasing_takes_the_new_buffers() -> None:
    """Running statistics are those of the adopted model."""
    new = Weights(params={}, buffers={"mean": torch.ones(1)})
    old = Delta(params={}, buffers={"mean": torch.zeros(1)})
    assert new.buffers["mean"] is rebase(new, old).buffers["mean"]


def test_adding_keeps_the_later_buffers() -> None:
    """Values of buffers are replaced, not added."""
    earlier = Delta(params={}, buffers={"a": torch.ones(1), "b": torch.ones(1)})
    later = Delta(params={}, buffers={"b": torch.zeros(1)})
    assert [1.0, 0.0] == [x.item() for x in add(earlier, later).buffers.values()]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.float64])
def test_non_finite_tensors_are_named(bad: float, dtype: torch.dtype) -> None:
    """One element is enough, wherever it is; a mere large number is not."""
    large = torch.full((70_000,), 3e38, dtype=dtype)
    broken = large.clone()
    broken[-1] = bad
    assert () == non_finite(delta(w=large))
    assert ("params.v",) == non_finite(delta(v=broken, w=large))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float16, torch.bfloat16])
def test_non_finite_buffers_are_named(dtype: torch.dtype) -> None:
    """Narrow floats too; integers have no such thing."""
    broken = torch.tensor([NAN, 1.0]).to(dtype)
    buffers = {"b": broken, "n": torch.tensor([1, 2], dtype=torch.uint16)}
    assert ("buffers.b",) == non_finite(Delta(params={}, buffers=buffers))


def test_the_norm_is_that_of_one_long_vector() -> None:
    """Over tensors, complex parts and rows; buffers do not count."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(40_000, generator=generator)
    b = torch.randn(3, 5, generator=generator, dtype=torch.complex64)
    found = norm(Delta(params={"b": b, "a": a}, buffers={"c": torch.ones(9)}))
    parts = torch.cat([a.double(), torch.view_as_real(b).reshape(-1).double()])
    torch.testing.assert_close(found, torch.linalg.vector_norm(parts))


def test_a_norm_does_not_overflow() -> None:
    """Squares of float32 do; they are taken in float64."""
    torch.testing.assert_close(
        norm(delta(w=torch.full((4,), 3e38))).item(), 6e38, rtol=1e-7, atol=0
    )


def test_flat_names_go_back() -> None:
    """Also when a parameter and a buffer have dots in their names."""
    one = Delta(params={"a.w": torch.ones(1)}, buffers={"a.w": torch.zeros(1)})
    assert ["buffers.a.w", "params.a.w"] == list(named(one))
    back = from_named(named(one))
    assert (1.0, 0.0) == (back.params["a.w"].item(), back.buffers["a.w"].item())


@pytest.mark.parametrize("name", ["w", "params", "params.", "other.w", ""])
def test_foreign_flat_names_are_refused(name: str) -> None:
    """A file of something else is not taken for a delta."""
    with pytest.raises(ValueError, match="delta: expected params"):
        from_named({name: torch.ones(1)})


def test_all_problems_are_told_on_the_meta_device() -> None:
    """A header is enough to judge a delta: nothing is read."""
    base = Weights(
        params={"v": torch.ones(2), "w": torch.ones(2), "z": torch.ones(1)},
        buffers={"n": torch.tensor(1), "kept": torch.ones(1)},
    )
    with torch.device("meta"):
        found = Delta(
            params={"v": torch.ones(2).half(), "x": torch.ones(1), "z": torch.ones(1)},
            buffers={"n": torch.ones(1)},
        )
    assert [
        "params['v'] is float16[2], expected float32[2]",
        "params['w'] is missing",
        "params['x'] is unexpected",
        "buffers['n'] is float32[1], expected int64[]",
    ] == delta_problems(base, found)


def test_batch_norm_travels_whole() -> None:
    """A real module: two statistics and one counter change."""
    module = nn.BatchNorm1d(2)
    before = {name: x.clone() for name, x in module.named_buffers()}
    module(torch.arange(8.0).reshape(4, 2))
    after = dict(module.named_buffers())
    base, current = (Weights(params={}, buffers=x) for x in (before, after))
    assert before.keys() == compute_delta(base, current).buffers.keys()


def test_the_functions_are_pure() -> None:
    """No argument is written to, no randomness drawn."""
    base = Weights(params={"w": torch.ones(2)}, buffers={"n": torch.ones(1)})
    current = Weights(params={"w": torch.zeros(2)}, buffers={"n": torch.zeros(1)})
    found = check_pure(compute_delta, base, current)
    check_pure(apply_delta, base, found)
    check_pure(rebase, base, found)
    check_pure(add, found, found)
    check_pure(subtract, found, found)
    check_pure(norm, found)
    check_pure(non_finite, found)
