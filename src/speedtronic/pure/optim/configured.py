"""From the optimizer section of a config to an optimizer.

Clipping (``grad_clip``) and the choice of the fused kernel (``fused``) are not part
of the optimizer: the inner step clips, and the shell knows the device.
"""

import math
from collections.abc import Mapping

import attrs
import torch

from speedtronic.pure.config import optimizer as config
from speedtronic.pure.optim.adamw import adamw
from speedtronic.pure.optim.average import averaged, exponential_average, tail_average
from speedtronic.pure.optim.base import Hyperparameter, Optimizer, Schedule, chain
from speedtronic.pure.optim.cautious import cautious
from speedtronic.pure.optim.decay import DecayMask, decay_mask
from speedtronic.pure.optim.lookahead import lookahead
from speedtronic.pure.optim.muon import muon_labels, scale_by_muon, shape_adjustment
from speedtronic.pure.optim.normuon import scale_by_row_moments
from speedtronic.pure.optim.partition import partition
from speedtronic.pure.optim.roles import Role, check_patterns, override_roles
from speedtronic.pure.optim.scale import descend, scale_by_adam
from speedtronic.pure.outer import OuterRule
from speedtronic.pure.types import Params


@attrs.frozen(kw_only=True)
class Assigned:
    """How one parameter is optimized."""

    name: str
    shape: tuple[int, ...]
    role: Role
    optimizer: str  # adamw or muon
    factor: float  # the update is multiplied by it and by the learning rate
    weight_decay: float  # 0 for what does not decay

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


def optimizer_from_config(
    section: config.Optimizer,
    learning_rate: Schedule,
    params: Params,
    roles: Mapping[str, Role],
    iteration_dtype: torch.dtype = torch.float32,
) -> Optimizer:
    """The optimizer that a config asks for.

    With ``weight_decay_follows_schedule: false`` the decay per step stays what it is
    at the peak of the learning rate, ``lr * weight_decay``.

    Args:
        section: of the config.
        learning_rate: see `speedtronic.pure.schedule.from_config`.
        params: those to optimize; only names and shapes matter.
        roles: of at least those.
        iteration_dtype: of Muon's iterations; bfloat16 where that is faster.

    Raises:
        ConfigError: for patterns that match no parameter.

    >>> params, rate = {"up.weight": torch.ones(2, 2)}, lambda clock: torch.tensor(0.1)
    >>> roles = {"up.weight": "hidden"}
    >>> made = optimizer_from_config(config.Optimizer(), rate, params, roles)
    >>> made.init(params)[0].count
    tensor(0)
    """
    roles, decays = _roles_and_decay(section, params, roles)
    made = _routed(section, learning_rate, params, roles, decays, iteration_dtype)
    if section.lookahead_every is not None:
        rule = OuterRule(
            learning_rate=section.lookahead_lr, momentum=section.lookahead_momentum
        )
        made = lookahead(made, section.lookahead_every, rule)
    if section.average is not None:
        means = {
            "ema": exponential_average(section.average_decay),
            "tail": tail_average(section.average_start),
        }
        made = averaged(made, means[section.average])
    return made


def assignment(
    section: config.Optimizer, params: Params, roles: Mapping[str, Role]
) -> tuple[Assigned, ...]:
    """What `optimizer_from_config` does with each parameter, for people to read.

    Raises:
        ConfigError: for patterns that match no parameter.

    >>> params = {"up.weight": torch.ones(8, 2), "up.bias": torch.ones(8)}
    >>> roles = {"up.weight": "hidden", "up.bias": "bias"}
    >>> for one in assignment(config.Optimizer(name="muon"), params, roles):
    ...     print(one.name, one.optimizer, one.factor, one.weight_decay)
    up.weight muon 2.0 0.1
    up.bias adamw 1.0 0.0
    """
    roles, decays = _roles_and_decay(section, params, roles)
    labels: Mapping[str, str] = dict.fromkeys(params, "adamw")
    if section.name == "muon":
        labels = muon_labels(params, roles)

    def factor(name: str) -> float:
        if labels[name] == "muon":
            return shape_adjustment(section.muon_adjust, *params[name].shape)
        return _adamw_rate(section) / section.lr

    return tuple(
        Assigned(
            name=name,
            shape=tuple(value.shape),
            role=roles[name],
            optimizer=labels[name],
            factor=factor(name),
            weight_decay=section.weight_decay if decays[name] else 0.0,
        )
        for name, value in params.items()
    )


def _roles_and_decay(
    section: config.Optimizer, params: Params, roles: Mapping[str, Role]
) -> tuple[dict[str, Role], dict[str, bool]]:
    own = override_roles({name: roles[name] for name in params}, section.roles)
    check_patterns("optimizer.no_decay", section.no_decay, own)
    return own, decay_mask(params, own, section.no_decay)


def _routed(
    section: config.Optimizer,
    learning_rate: Schedule,
    params: Params,
    roles: Mapping[str, Role],
    decays: Mapping[str, bool],
    iteration_dtype: torch.dtype,
) -> Optimizer:
    """AdamW for everything, or for what Muon does not take."""

    def mask(some: Params) -> dict[str, bool]:
        return {name: decays[name] for name in some}

    if section.name == "adamw":
        return _adamw(section, learning_rate, section.lr, mask)
    adamw_lr = _adamw_rate(section)
    share = adamw_lr / section.lr
    others = _adamw(section, lambda clock: learning_rate(clock) * share, adamw_lr, mask)
    direction = scale_by_muon(
        momentum=section.muon_momentum,
        ns_steps=section.muon_ns_steps,
        adjust=section.muon_adjust,
        coefficients=section.muon_coefficients,
        plus=section.muon_plus,
        plus_eps=section.muon_norm_eps,
        iteration_dtype=iteration_dtype,
    )
    if section.normuon:
        direction = chain(direction, scale_by_row_moments(section.normuon_beta2))
    hidden = _descend(section, direction, learning_rate, section.lr, mask)
    labels = muon_labels(params, roles)
    return partition({"muon": hidden, "adamw": others}, labels)


def _adamw_rate(section: config.Optimizer) -> float:
    """The peak learning rate of what AdamW has."""
    if section.name == "adamw" or section.adamw_lr is None:
        return section.lr
    return section.adamw_lr


def _adamw(
    section: config.Optimizer,
    learning_rate: Schedule,
    peak: float,
    mask: DecayMask,
) -> Optimizer:
    if section.cautious or section.cautious_decay:
        direction = scale_by_adam(section.betas, section.eps)
        return _descend(section, direction, learning_rate, peak, mask)
    return adamw(
        learning_rate,
        section.betas,
        section.eps,
        _weight_decay(section, peak),
        mask,
        section.weight_decay_follows_schedule,
    )


def _descend(
    section: config.Optimizer,
    direction: Optimizer,
    learning_rate: Schedule,
    peak: float,
    mask: DecayMask,
) -> Optimizer:
    return descend(
        cautious(direction) if section.cautious else direction,
        learning_rate,
        _weight_decay(section, peak),
        mask,
        section.weight_decay_follows_schedule,
        section.cautious_decay,
    )


def _weight_decay(section: config.Optimizer, peak: float) -> Hyperparameter:
    follows = section.weight_decay_follows_schedule
    return section.weight_decay if follows else section.weight_decay * peak
