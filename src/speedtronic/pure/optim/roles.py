"""What a parameter is for, which decides how it is optimized.

A role normally comes from the type of the module that owns the parameter (an
embedding, a norm, a linear layer). `role_by_name` is the rule for parameters whose
module says nothing: it looks at the name and the shape only.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from torch import Tensor

from speedtronic.errors import ConfigError
from speedtronic.pure.config.optimizer import ROLES, Role

__all__ = ["ROLES", "Role", "check_patterns", "override_roles", "role_by_name"]

_EMBEDDING_WORDS = ("emb", "wte", "wpe")
_HEAD_NAMES = ("score", "output")
_HEAD_WORDS = ("head", "classifier", "logits", "unembed")  # that a head's name ends in
_NORM_WORDS = ("ln", "bn", "gn")
_DIGITS = "0123456789"


def role_by_name(name: str, parameter: Tensor) -> Role:
    """The role that a dotted name and a shape suggest.

    >>> import torch
    >>> matrix = torch.ones(4, 4)
    >>> role_by_name("layers.0.mlp.up_proj.weight", matrix)
    'hidden'
    >>> role_by_name("transformer.wte.weight", matrix)
    'embedding'
    >>> role_by_name("layers.0.q_norm.gain", matrix)
    'norm'
    """
    parts = name.lower().split(".")
    owner, leaf = parts[-2] if len(parts) > 1 else "", parts[-1]
    words = owner.split("_") + leaf.split("_")
    if "bias" in leaf.split("_"):
        return "bias"
    if _is_norm(owner):
        return "norm"
    if parameter.ndim < 2:
        return "vector"
    if any(w in _EMBEDDING_WORDS or w.startswith("embed") for w in words):
        return "embedding"
    if owner in _HEAD_NAMES or owner.split("_")[-1].rstrip(_DIGITS) in _HEAD_WORDS:
        return "head"
    return "hidden" if parameter.ndim == 2 else "kernel"


def override_roles(
    roles: Mapping[str, Role], patterns: Mapping[str, Role]
) -> dict[str, Role]:
    """Roles with those of matching names replaced; the last pattern wins.

    Raises:
        ConfigError: one line per pattern that matches no parameter.

    >>> override_roles({"a.weight": "hidden"}, {"a.*": "head"})
    {'a.weight': 'head'}
    """
    check_patterns("optimizer.roles", patterns, roles)
    changed = dict(roles)
    for pattern, role in patterns.items():
        changed |= {name: role for name in roles if fnmatchcase(name, pattern)}
    return changed


def check_patterns(
    where: str,
    patterns: Mapping[str, Role] | tuple[str, ...],
    names: Mapping[str, Role],
) -> None:
    """Raise ConfigError unless every shell pattern matches some parameter.

    >>> check_patterns("optimizer.no_decay", ("wte.*",), {"head.weight": "head"})
    Traceback (most recent call last):
    speedtronic.errors.ConfigError: optimizer.no_decay: pattern 'wte.*' matches no ...
    """
    problems = [
        f"{where}: pattern {pattern!r} matches no trainable parameter; "
        f"names look like {next(iter(names), 'nothing')!r}"
        for pattern in patterns
        if not any(fnmatchcase(name, pattern) for name in names)
    ]
    if problems:
        raise ConfigError(problems)


def _is_norm(owner: str) -> bool:
    """Whether a module's own name says norm: norm1, ln_f, q_norm, layernorm, bn2."""
    words = [word.rstrip(_DIGITS) for word in owner.split("_")]
    while len(words) > 1 and len(words[-1]) <= 1:
        words.pop()
    return words[-1].endswith("norm") or words[-1] in _NORM_WORDS
