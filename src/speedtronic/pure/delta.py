"""The pseudo-gradient: what a node's work changed, as a value that can travel.

The sign is fixed here, once: ``delta = float32(base) - float32(current)``. It points
from where a node is back to where it started, so that it *descends* like a gradient
(DiLoCo, arXiv:2311.08105, algorithm 1): ``current = base - delta``.

Three rules, by kind of tensor:

- Parameters are differences, in float32; complex ones in complex64.
- Floating buffers, such as running statistics, travel as values and are averaged
  without momentum. Differences would do harm: a mean of them can take a running
  variance below zero, and old statistics are no displacement to be added up.
- Integer and boolean buffers travel as values; the largest counts.

A buffer whose bits did not change is left out, so that constant tables (masks full of
infinities among them) cost nothing and stay exactly what they are. Buffers that each
node should keep to itself are left out of the weights that are compared.

Absent on purpose: frozen parameters, which never change, codecs, and any decision
about which deltas count.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from speedtronic.pure.reduction import all_finite, like_real, norm_in_order, real
from speedtronic.pure.tree import check_same, evolve, state
from speedtronic.pure.types import Buffers, Params


@state
class Weights:
    """A model as the nodes of a run share it."""

    params: Params  # f32[P] or complex64[P], the trained ones
    buffers: Buffers


@state
class Delta:
    """What changed from one `Weights` to another."""

    params: Params  # f32[P] or complex64[P], base - current: it descends
    buffers: Buffers  # the current values of those that changed


def compute_delta(base: Weights, current: Weights) -> Delta:
    """The differences ``base - current`` of parameters, and the changed buffers.

    Raises:
        ValueError: names, shapes or dtypes differ, or a parameter is neither
            floating nor complex; with the path.

    >>> base = Weights(params={"w": torch.tensor([1.0])}, buffers={})
    >>> current = Weights(params={"w": torch.tensor([0.25])}, buffers={})
    >>> compute_delta(base, current).params
    {'w': tensor([0.7500])}
    """
    check_same("params", base.params, current.params)
    check_same("buffers", base.buffers, current.buffers)
    return Delta(
        params={
            name: _minus(_wide(name, x), _wide(name, current.params[name]))
            for name, x in base.params.items()
        },
        buffers={
            name: x
            for name, x in current.buffers.items()
            if not _same_bits(x, base.buffers[name])
        },
    )


def apply_delta(base: Weights, delta: Delta) -> Weights:
    """The weights that ``delta`` leads to, to one rounding; dtypes are those of base.

    Raises:
        ValueError: ``delta`` does not fit ``base``; with the paths.

    >>> base = Weights(params={"w": torch.tensor([1.0])}, buffers={})
    >>> apply_delta(base, Delta(params={"w": torch.tensor([0.75])}, buffers={})).params
    {'w': tensor([0.2500])}
    """
    problems = delta_problems(base, delta)
    if problems:
        raise ValueError("; ".join(problems))
    return Weights(
        params={
            name: _minus(_wide(name, x), delta.params[name]).to(x.dtype)
            for name, x in base.params.items()
        },
        buffers=base.buffers | delta.buffers,
    )


def rebase(new: Weights, remaining: Delta) -> Weights:
    """Work that is not counted yet, on top of a newer global model.

    Buffers are those of ``new``: running statistics recover within a few steps.

    >>> new = Weights(params={"w": torch.tensor([1.0])}, buffers={})
    >>> rebase(new, Delta(params={"w": torch.tensor([0.25])}, buffers={})).params
    {'w': tensor([0.7500])}
    """
    return apply_delta(new, evolve(remaining, buffers={}))


def add(earlier: Delta, later: Delta) -> Delta:
    """One delta that does what ``earlier`` and then ``later`` do.

    >>> one = Delta(params={"w": torch.tensor([1.0])}, buffers={})
    >>> add(one, one).params
    {'w': tensor([2.])}
    """
    check_same("params", earlier.params, later.params)
    params = {
        name: like_real(x, real(x) + real(later.params[name]))
        for name, x in earlier.params.items()
    }
    return Delta(params=params, buffers=earlier.buffers | later.buffers)


def subtract(whole: Delta, part: Delta) -> Delta:
    """What is left of ``whole`` when ``part``, which it contains, is taken out.

    >>> one = Delta(params={"w": torch.tensor([1.0])}, buffers={})
    >>> subtract(one, one).params
    {'w': tensor([0.])}
    """
    check_same("params", whole.params, part.params)
    params = {name: _minus(x, part.params[name]) for name, x in whole.params.items()}
    return evolve(whole, params=params)


def delta_problems(base: Weights, delta: Delta) -> list[str]:
    """Why ``delta`` does not fit ``base``: names, shapes and dtypes, one line each.

    Every parameter must be there, in float32 or complex64. A buffer may be missing.
    Values are not looked at, so tensors on the meta device will do.

    >>> base = Weights(params={"w": torch.ones(2)}, buffers={})
    >>> delta_problems(base, Delta(params={"w": torch.ones(3)}, buffers={}))
    ["params['w'] is float32[3], expected float32[2]"]
    """
    told = []
    for part, expected, found in (
        ("params", base.params, delta.params),
        ("buffers", base.buffers, delta.buffers),
    ):
        for name in sorted(expected.keys() | found.keys()):
            path = f"{part}[{name!r}]"
            if name not in expected:
                told.append(f"{path} is unexpected")
            elif name not in found:
                told += [f"{path} is missing"] if part == "params" else []
            else:
                want = expected[name]
                dtype = _wide_dtype(want.dtype) if part == "params" else want.dtype
                if (found[name].dtype, found[name].shape) != (dtype, want.shape):
                    is_, should = _told(found[name]), _told(want, dtype)
                    told.append(f"{path} is {is_}, expected {should}")
    return told


def non_finite(delta: Delta) -> tuple[str, ...]:
    """The paths of tensors that hold a NaN or an infinity; empty when none does.

    >>> non_finite(Delta(params={"w": torch.tensor([float("inf")])}, buffers={}))
    ('params.w',)
    """
    return tuple(name for name, x in named(delta).items() if not all_finite(x))


def norm(delta: Delta) -> Tensor:
    """The 2-norm of the parameters' part, with the same bits on every CPU.

    Returns:
        f64[]

    >>> norm(Delta(params={"w": torch.tensor([3.0, 4.0])}, buffers={}))
    tensor(5., dtype=torch.float64)
    """
    return norm_in_order([x for _, x in sorted(delta.params.items())])


def named(delta: Delta) -> dict[str, Tensor]:
    """One flat dict, as in a file, sorted: ``buffers.NAME`` and ``params.NAME``.

    >>> list(named(Delta(params={"w": torch.ones(1)}, buffers={"n": torch.ones(1)})))
    ['buffers.n', 'params.w']
    """
    buffers = {f"buffers.{name}": x for name, x in sorted(delta.buffers.items())}
    return buffers | {f"params.{name}": x for name, x in sorted(delta.params.items())}


def from_named(tensors: Mapping[str, Tensor]) -> Delta:
    """Undo `named`.

    Raises:
        ValueError: a name begins in another way.

    >>> from_named({"params.w": torch.ones(1)}).params
    {'w': tensor([1.])}
    """
    parts: dict[str, dict[str, Tensor]] = {"params": {}, "buffers": {}}
    for path, x in sorted(tensors.items()):
        part, _, name = path.partition(".")
        if part not in parts or not name:
            raise ValueError(f"delta: expected params.* or buffers.*, found {path!r}")
        parts[part][name] = x
    return Delta(params=parts["params"], buffers=parts["buffers"])


def _minus(a: Tensor, b: Tensor) -> Tensor:
    return like_real(a, real(a) - real(b))


def _wide_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.complex64 if dtype.is_complex else torch.float32


def _wide(name: str, x: Tensor) -> Tensor:
    if not (x.is_floating_point() or x.is_complex()):
        raise ValueError(
            f"params[{name!r}] is {_told(x)}, expected a floating or complex dtype; "
            "carry it as a buffer"
        )
    return x.to(_wide_dtype(x.dtype))


def _same_bits(a: Tensor, b: Tensor) -> bool:
    if a is b or not a.numel():
        return True
    bits = [real(x).contiguous().view(-1).view(torch.uint8) for x in (a, b)]
    return torch.equal(*bits)


def _told(x: Tensor, dtype: torch.dtype | None = None) -> str:
    return f"{dtype or x.dtype}{list(x.shape)}".removeprefix("torch.")
