"""Optimizers as pairs of pure functions; see `speedtronic.pure.optim.base`."""

from speedtronic.pure.optim.adamw import adamw
from speedtronic.pure.optim.average import (
    Average,
    averaged,
    begin_again,
    exponential_average,
    tail_average,
)
from speedtronic.pure.optim.base import (
    Clock,
    Hyperparameter,
    Optimizer,
    OptState,
    Schedule,
    apply_updates,
    chain,
    guarded_step,
    stateless,
    value_at,
)
from speedtronic.pure.optim.cautious import cautious
from speedtronic.pure.optim.configured import (
    Assigned,
    assignment,
    optimizer_from_config,
)
from speedtronic.pure.optim.decay import decay_everything, decay_mask, decay_report
from speedtronic.pure.optim.lookahead import lookahead
from speedtronic.pure.optim.muon import muon, muon_labels, scale_by_muon
from speedtronic.pure.optim.normuon import scale_by_row_moments
from speedtronic.pure.optim.partition import partition
from speedtronic.pure.optim.roles import (
    ROLES,
    Role,
    override_roles,
    role_by_name,
)
from speedtronic.pure.optim.scale import (
    add_decayed_weights,
    clip_by_global_norm,
    clip_coefficient,
    descend,
    scale,
    scale_by_adam,
    scale_by_learning_rate,
    trace,
)
from speedtronic.pure.optim.sgd import sgd

__all__ = [
    "ROLES",
    "Assigned",
    "Average",
    "Clock",
    "Hyperparameter",
    "OptState",
    "Optimizer",
    "Role",
    "Schedule",
    "adamw",
    "add_decayed_weights",
    "apply_updates",
    "assignment",
    "averaged",
    "begin_again",
    "cautious",
    "chain",
    "clip_by_global_norm",
    "clip_coefficient",
    "decay_everything",
    "decay_mask",
    "decay_report",
    "descend",
    "exponential_average",
    "guarded_step",
    "lookahead",
    "muon",
    "muon_labels",
    "optimizer_from_config",
    "override_roles",
    "partition",
    "role_by_name",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_muon",
    "scale_by_row_moments",
    "sgd",
    "stateless",
    "tail_average",
    "trace",
    "value_at",
]
