"""Optimizer and scheduler sections."""

from typing import Literal, TypeAlias, get_args

import attrs

from speedtronic.pure.config.base import (
    below_one,
    each,
    field,
    fraction,
    not_negative,
    one_of,
    positive,
)

OPTIMIZERS = ("adamw", "muon")
SCHEDULES = ("cosine", "constant", "linear", "wsd")
Role: TypeAlias = Literal[  # what a parameter is for
    "embedding",  # a table of vectors, tied to a head or not
    "head",  # the last projection, onto classes or a vocabulary
    "norm",  # gain or offset of a normalization, of any shape
    "bias",  # an offset, of any shape
    "vector",  # any other parameter with fewer than two dimensions
    "kernel",  # three dimensions or more: convolutions, stacked experts
    "hidden",  # a matrix between two activations
]
ROLES: tuple[Role, ...] = get_args(Role)


@attrs.frozen(kw_only=True)
class Optimizer:
    """The inner optimizer."""

    name: str = field("adamw", "adamw or muon", check=one_of(*OPTIMIZERS))
    lr: float = field(3e-4, "peak learning rate", check=positive)
    betas: tuple[float, float] = field(
        (0.9, 0.95), "decay of the two moments", check=each(below_one)
    )
    eps: float = field(1e-8, "added to the root of the second moment", check=positive)
    weight_decay: float = field(0.1, "decay of matrices only", check=not_negative)
    weight_decay_follows_schedule: bool = field(
        True, "scale the decay with the learning rate, as torch.optim.AdamW does"
    )
    no_decay: tuple[str, ...] = field(
        (), "patterns of parameter names that do not decay, such as transformer.wte.*"
    )
    roles: dict[str, Role] = field(
        dict,
        "pattern of parameter names -> role, over what the model says",
        check=lambda v: each(one_of(*ROLES))(v.values()),
    )
    fused: bool | None = field(
        None, "use the fused kernel (default: where it exists)", scope="node"
    )
    grad_clip: float | None = field(
        None, "largest global gradient norm", check=positive
    )
    muon_plus: bool = field(False, "normalise Muon's update by rows and columns")
    cautious: bool = field(False, "keep update entries that agree with the gradient")
    cautious_decay: bool = field(
        False, "decay only weights that the update moves towards zero, too"
    )
    adamw_lr: float | None = field(
        None,
        "peak learning rate of what Muon leaves to AdamW (default: lr)",
        check=positive,
    )
    muon_momentum: float = field(0.95, "momentum of Muon", check=below_one)
    muon_ns_steps: int = field(5, "Newton-Schulz steps", check=positive)
    muon_norm_eps: float = field(1e-8, "guard of Muon+'s norms", check=positive)
    muon_coefficients: str = field(
        "keller",
        "keller or polar_express: coefficients of the Newton-Schulz steps",
        check=one_of("keller", "polar_express"),
    )
    muon_iteration_dtype: str = field(
        "auto",
        "fp32, bf16, or auto (bf16 where the device is built for it): of those steps",
        scope="node",
        check=one_of("auto", "fp32", "bf16"),
    )
    muon_adjust: str = field(
        "original",
        "original or match_rms_adamw: how the update follows a matrix's shape",
        check=one_of("original", "match_rms_adamw"),
    )
    normuon: bool = field(
        False, "NorMuon: one size over time for the rows of Muon's update"
    )
    normuon_beta2: float = field(
        0.95, "decay of the running sizes of rows", check=below_one
    )
    average: str | None = field(
        None,
        "ema or tail: keep averaged weights, too; training is not changed",
        check=one_of("ema", "tail"),
    )
    average_decay: float = field(
        0.999, "of ema: what is left of older weights per step", check=below_one
    )
    average_start: int = field(
        0, "of tail: steps after which its mean begins", check=not_negative
    )
    lookahead_every: int | None = field(
        None,
        "steps per outer step on this one machine (Lookahead, SNOO)",
        check=positive,
    )
    lookahead_lr: float = field(0.5, "learning rate of that step", check=positive)
    lookahead_momentum: float = field(
        0.0, "its Nesterov momentum: 0 is Lookahead, more is SNOO", check=below_one
    )


@attrs.frozen(kw_only=True)
class Scheduler:
    """How the learning rate moves."""

    name: str = field(
        "cosine", "one of " + ", ".join(SCHEDULES), check=one_of(*SCHEDULES)
    )
    warmup_steps: int = field(100, "steps of linear warm-up", check=not_negative)
    max_steps: int | None = field(
        None, "horizon of the schedule (default: run.max_steps)", check=positive
    )
    min_lr_ratio: float = field(
        0.1, "last learning rate over the peak one", check=fraction
    )
    decay_fraction: float = field(
        0.2, "share of the horizon that wsd spends decaying", check=fraction
    )
