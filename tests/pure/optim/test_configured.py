"""From a config to an optimizer."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from speedtronic.errors import ConfigError
from speedtronic.pure.config.optimizer import Optimizer as Section
from speedtronic.pure.optim.adamw import adamw
from speedtronic.pure.optim.average import (
    Average,
    averaged,
    exponential_average,
    tail_average,
)
from speedtronic.pure.optim.base import Clock, Optimizer, chain
from speedtronic.pure.optim.cautious import cautious
from speedtronic.pure.optim.configured import (
    Assigned,
    assignment,
    optimizer_from_config,
)
from speedtronic.pure.optim.lookahead import lookahead
from speedtronic.pure.optim.muon import muon, scale_by_muon
from speedtronic.pure.optim.normuon import scale_by_row_moments
from speedtronic.pure.optim.scale import descend, scale_by_adam
from speedtronic.pure.outer import OuterRule
from speedtronic.pure.roles import roles_of
from speedtronic.pure.tree import named_leaves

CLOCK = Clock(step=torch.tensor(0))
PARAMS = {
    "wte.weight": torch.ones(6, 4),
    "up.weight": torch.ones(4, 4),
    "up.bias": torch.ones(4),
}
GRADS = {
    name: torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    for name, p in PARAMS.items()
}
ROLES = {"wte.weight": "embedding", "up.weight": "hidden", "up.bias": "bias"}


def rate(clock: Clock) -> Tensor:
    return torch.tensor(0.01)


def configured(**fields: object) -> Optimizer:
    return optimizer_from_config(Section(**fields), rate, PARAMS, ROLES)  # type: ignore[arg-type]


def first_updates(optimizer: Optimizer, names: list[str]) -> dict[str, Tensor]:
    params = {name: PARAMS[name] for name in names}
    grads = {name: GRADS[name] for name in names}
    return optimizer.update(grads, optimizer.init(params), params, CLOCK)[0]


def same(expected: Optimizer, actual: Optimizer, names: list[str]) -> None:
    """The first updates of some parameters agree."""
    theirs = first_updates(expected, names)
    ours = first_updates(actual, list(PARAMS))
    for name in names:
        torch.testing.assert_close(theirs[name], ours[name])


def test_adamw_is_adamw() -> None:
    """With the section's numbers and decay on matrices."""
    same(adamw(rate, (0.9, 0.95), 1e-8, 0.1), configured(), list(PARAMS))
    assert configured().fused is not None


def test_muon_takes_hidden_matrices() -> None:
    """AdamW has the rest, at the same learning rate unless told otherwise."""
    made = configured(name="muon", muon_adjust="match_rms_adamw")

    same(muon(rate, adjust="match_rms_adamw"), made, ["up.weight"])
    same(adamw(rate, (0.9, 0.95), 1e-8, 0.1), made, ["wte.weight", "up.bias"])
    assert made.fused is not None


def test_muon_and_adamw_may_have_their_own_rates() -> None:
    """Both follow one schedule."""
    made = configured(name="muon", lr=0.02, adamw_lr=0.01)

    half = adamw(lambda clock: rate(clock) / 2, (0.9, 0.95), 1e-8, 0.1)
    same(half, made, ["wte.weight", "up.bias"])
    same(muon(rate), made, ["up.weight"])


def test_cautious_masks_the_direction_of_both() -> None:
    """There is no kernel for it."""
    made = configured(name="muon", cautious=True)

    adam = cautious(scale_by_adam((0.9, 0.95), 1e-8))
    same(descend(adam, rate, 0.1), made, ["wte.weight", "up.bias"])
    assert made.fused is None


def test_normuon_is_one_more_link() -> None:
    """After Muon's; what AdamW has is as before."""
    made = configured(name="muon", normuon=True, normuon_beta2=0.9)

    direction = chain(scale_by_muon(), scale_by_row_moments(0.9))
    same(descend(direction, rate, 0.1), made, ["up.weight"])
    same(adamw(rate, (0.9, 0.95), 1e-8, 0.1), made, ["wte.weight", "up.bias"])


def test_decay_may_be_cautious() -> None:
    """For both optimizers; there is no kernel for it."""
    made = configured(name="muon", cautious_decay=True)

    adam = scale_by_adam((0.9, 0.95), 1e-8)
    careful = descend(adam, rate, 0.1, cautious_decay=True)
    same(careful, made, ["wte.weight", "up.bias"])
    same(descend(scale_by_muon(), rate, 0.1, cautious_decay=True), made, ["up.weight"])
    assert made.fused is None


@pytest.mark.parametrize(
    "fields, average",
    [
        ({"average": "ema", "average_decay": 0.5}, exponential_average(0.5)),
        ({"average": "tail", "average_start": 1}, tail_average(1)),
    ],
    ids=["ema", "tail"],
)
def test_an_average_is_kept_on_demand(
    fields: dict[str, object], average: Average
) -> None:
    """Beside the same updates."""
    theirs, ours = averaged(configured(), average), configured(**fields)
    late = Clock(step=torch.tensor(2))
    made = [o.update(GRADS, o.init(PARAMS), PARAMS, late) for o in (theirs, ours)]

    torch.testing.assert_close(*[named_leaves(one) for one in made])


def test_the_outer_step_of_one_machine() -> None:
    """Inside of an average, so that it is the trained weights that are averaged."""
    rule = OuterRule(learning_rate=0.7, momentum=0.6)
    theirs = averaged(lookahead(configured(), 1, rule), exponential_average())
    ours = configured(
        lookahead_every=1, lookahead_lr=0.7, lookahead_momentum=0.6, average="ema"
    )
    made = [o.update(GRADS, o.init(PARAMS), PARAMS, CLOCK) for o in (theirs, ours)]

    torch.testing.assert_close(*[named_leaves(one) for one in made])


def test_decay_that_ignores_the_schedule_is_that_of_the_peak() -> None:
    """Per step lr * weight_decay, at any point of the schedule."""
    made = configured(lr=0.5, weight_decay=0.1, weight_decay_follows_schedule=False)
    zeros = {name: torch.zeros_like(p) for name, p in PARAMS.items()}
    updates, _ = made.update(zeros, made.init(PARAMS), PARAMS, CLOCK)

    torch.testing.assert_close(torch.full((4, 4), -0.05), updates["up.weight"])


def groups(section: Section, params: dict[str, Tensor], roles: Any) -> dict[str, Any]:
    """The names in each group of one optimizer and one decay."""
    found: dict[str, Any] = {}
    for one in assignment(section, params, roles):
        group = f"{one.optimizer}, {'' if one.weight_decay else 'not '}decayed"
        found.setdefault(group, []).append(one.name)
    return found


def test_patterns_take_names_out_of_decay() -> None:
    """For both optimizers."""
    section = Section(name="muon", no_decay=("wte.*", "up.weight"))

    assert {
        "adamw, not decayed": ["wte.weight", "up.bias"],
        "muon, not decayed": ["up.weight"],
    } == groups(section, PARAMS, ROLES)


def test_patterns_change_roles() -> None:
    """So that any matrix can be given to Muon, or taken from it."""
    section = Section(name="muon", roles={"up.weight": "head", "wte.*": "hidden"})
    found = groups(section, PARAMS, ROLES)

    assert ["wte.weight"] == found["muon, decayed"]
    assert ["up.weight"] == found["adamw, decayed"]


def test_an_assignment_tells_shapes_roles_and_factors() -> None:
    """In the order of the parameters."""
    section = Section(name="muon", lr=0.02, adamw_lr=0.01, weight_decay=0.3)
    params = {"up.weight": torch.ones(8, 2), "up.bias": torch.ones(8)}

    assert (
        Assigned(
            name="up.weight",
            shape=(8, 2),
            role="hidden",
            optimizer="muon",
            factor=2.0,
            weight_decay=0.3,
        ),
        Assigned(
            name="up.bias",
            shape=(8,),
            role="bias",
            optimizer="adamw",
            factor=0.5,
            weight_decay=0.0,
        ),
    ) == assignment(section, params, ROLES)  # type: ignore[arg-type]


def test_factors_are_those_of_the_steps() -> None:
    """Halving what is listed for AdamW halves what AdamW does."""
    section = {"name": "muon", "lr": 0.02, "adamw_lr": 0.01, "weight_decay": 0.0}
    (listed,) = [
        one.factor
        for one in assignment(Section(**section), PARAMS, ROLES)  # type: ignore[arg-type]
        if one.name == "up.bias"
    ]
    alone = adamw(lambda clock: listed * rate(clock), (0.9, 0.95), 1e-8, 0.0)

    same(alone, configured(**section), ["up.bias"])


class Zoo(nn.Module):
    """One of each kind of parameter that a rule by name or by shape gets wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(6, 4)
        self.norm = nn.LayerNorm(4)
        self.convolution = nn.Conv1d(4, 4, 3)
        self.depthwise = nn.Conv1d(4, 4, 3, groups=4, bias=False)
        self.up = nn.Linear(4, 8)
        self.nothing = nn.Parameter(torch.empty(4, 0))
        self.lm_head = nn.Linear(4, 6, bias=False)
        self.lm_head.weight = self.wte.weight


def test_each_parameter_of_a_module_is_in_one_group() -> None:
    """By role: the tied embedding, norms, biases and convolutions are AdamW's."""
    module = Zoo()
    params = {name: p.detach() for name, p in module.named_parameters()}
    section, roles = Section(name="muon"), roles_of(module)
    assert {
        "muon, decayed": ["nothing", "up.weight"],
        "adamw, decayed": ["wte.weight", "convolution.weight", "depthwise.weight"],
        "adamw, not decayed": [
            "norm.weight",
            "norm.bias",
            "convolution.bias",
            "up.bias",
        ],
    } == groups(section, params, roles)
    made = optimizer_from_config(section, rate, params, roles)
    updates, _ = made.update(params, made.init(params), params, CLOCK)
    assert list(params) == list(updates)


def test_frozen_parameters_need_no_optimizer() -> None:
    """Roles of names that are not trained are ignored, and so are their patterns."""
    roles = {**ROLES, "frozen.weight": "hidden"}
    optimizer_from_config(Section(name="muon"), rate, PARAMS, roles).init(PARAMS)  # type: ignore[arg-type]

    section = Section(no_decay=("frozen.*",))
    with pytest.raises(ConfigError, match="'frozen.*' matches no trainable parameter"):
        optimizer_from_config(section, rate, PARAMS, roles)  # type: ignore[arg-type]
