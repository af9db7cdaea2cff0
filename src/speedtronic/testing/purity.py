"""Check at run time that a function is pure: no mutated input, no hidden randomness."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from speedtronic.pure.tree import named_leaves


class NoHiddenRandomness(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuse every operation that draws from a global generator."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        seeded = torch.Tag.nondeterministic_seeded in func.tags
        if seeded and kwargs.get("generator") is None:
            raise AssertionError(f"{func} draws from the global generator")
        return func(*args, **kwargs)


def check_pure(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``function`` and fail if it wrote to an argument or drew randomness.

    Writes through ``.data`` are found by comparing bits, others by version counter.

    Raises:
        AssertionError: naming the argument that changed, or the operation.

    >>> check_pure(lambda x: x + 1, torch.zeros(1))
    tensor([1.])
    >>> check_pure(lambda x: x.add_(1), torch.zeros(1))
    Traceback (most recent call last):
    AssertionError: <lambda> wrote to its argument [0]
    """
    given = named_leaves((*args, kwargs) if kwargs else args)
    inputs = {path: x for path, x in given.items() if isinstance(x, Tensor)}
    before = {p: (x._version, x.detach().clone()) for p, x in inputs.items()}
    with NoHiddenRandomness():  # type: ignore[no-untyped-call]
        result = function(*args, **kwargs)
    name = getattr(function, "__name__", repr(function))
    for path, (version, copy) in before.items():
        x = inputs[path]
        same = x.shape == copy.shape and torch.equal(
            x.detach().nan_to_num(), copy.nan_to_num()
        )
        if x._version != version or not same:
            raise AssertionError(f"{name} wrote to its argument {path}")
    return result
