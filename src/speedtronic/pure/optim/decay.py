"""Which parameters weight decay shrinks: matrices, never norms, biases or vectors.

Embeddings and heads are matrices and decay, a tied pair once because it is one
parameter. To leave some out, pass patterns of names.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

from speedtronic.pure.optim.roles import Role, role_by_name
from speedtronic.pure.types import Params

DecayMask: TypeAlias = Callable[[Params], Mapping[str, bool]]

_NEVER: tuple[Role, ...] = ("norm", "bias", "vector")


def decay_mask(
    params: Params,
    roles: Mapping[str, Role] | None = None,
    no_decay: tuple[str, ...] = (),
) -> dict[str, bool]:
    """Whether each parameter decays.

    Args:
        params: by name.
        roles: by name; by default what `role_by_name` makes of names and shapes.
        no_decay: shell patterns of names that do not decay whatever their role.

    >>> import torch
    >>> params = {"wte.weight": torch.ones(4, 2), "ln.weight": torch.ones(2)}
    >>> decay_mask(params)
    {'wte.weight': True, 'ln.weight': False}
    >>> decay_mask(params, no_decay=("wte.*",))
    {'wte.weight': False, 'ln.weight': False}
    """
    return {
        name: value.ndim >= 2
        and (role_by_name(name, value) if roles is None else roles[name]) not in _NEVER
        and not any(fnmatchcase(name, pattern) for pattern in no_decay)
        for name, value in params.items()
    }


def decay_everything(params: Params) -> dict[str, bool]:
    """The mask of ``torch.optim``: every parameter decays.

    >>> import torch
    >>> decay_everything({"b": torch.ones(2)})
    {'b': True}
    """
    return dict.fromkeys(params, True)


def decay_report(params: Params, mask: DecayMask = decay_mask) -> dict[str, list[str]]:
    """The names in each group, for people to read.

    >>> import torch
    >>> decay_report({"up.weight": torch.ones(2, 2), "up.bias": torch.ones(2)})
    {'decayed': ['up.weight'], 'not decayed': ['up.bias']}
    """
    decayed = mask(params)
    return {
        "decayed": [name for name in params if decayed[name]],
        "not decayed": [name for name in params if not decayed[name]],
    }
