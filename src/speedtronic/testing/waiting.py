"""Count what makes the host wait for the device while a function runs.

On a GPU the host runs ahead; an operation whose result, or whose size, it must know
ends that. Torch tags those operations, so that they can be counted on a CPU, too. What
is a copy to the host elsewhere (``tolist``, ``numpy``, ``cpu``) is not seen there.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from speedtronic.pure.tree import leaves

_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_MASKS = (torch.bool, torch.uint8)


class HostWaits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that counts waiting operations by name in ``seen``.

    >>> with HostWaits() as waits:
    ...     _ = float(torch.ones(()))
    ...     _ = torch.ones(3)[torch.tensor([True, False, True])]
    ...     _ = torch.ones(3)[torch.tensor([0, 2])] + 1
    >>> dict(waits.seen)
    {'aten._local_scalar_dense.default': 1, 'aten.index.Tensor': 1}
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if _waits(func, (args, kwargs)):
            self.seen[str(func)] += 1
        return func(*args, **kwargs)


def _waits(func: Any, given: Any) -> bool:
    if str(func).startswith("aten.index"):
        # Indices are taken as they are, but the elements of a mask must be counted.
        return any(isinstance(x, Tensor) and x.dtype in _MASKS for x in leaves(given))
    return bool(_TAGS & set(func.tags))
