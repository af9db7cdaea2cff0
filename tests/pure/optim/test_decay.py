"""Which parameters decay."""

import torch

from speedtronic.pure.optim.decay import decay_everything, decay_mask, decay_report

PARAMS = {
    "wte.weight": torch.ones(4, 2),
    "up.weight": torch.ones(2, 2),
    "up.bias": torch.ones(2),
    "norm.gain": torch.ones(1, 2),
    "conv.weight": torch.ones(2, 2, 3),
}


def test_matrices_decay_and_nothing_else() -> None:
    """Embeddings and convolutions are matrices; norms and biases never are."""
    expected = {
        "wte.weight": True,
        "up.weight": True,
        "up.bias": False,
        "norm.gain": False,
        "conv.weight": True,
    }
    assert expected == decay_mask(PARAMS)


def test_roles_beat_names() -> None:
    """A module that says it is a norm is one, whatever its name."""
    roles = dict.fromkeys(PARAMS, "hidden") | {"up.weight": "norm"}

    mask = decay_mask(PARAMS, roles)  # type: ignore[arg-type]
    assert not mask["up.weight"]
    assert mask["norm.gain"]


def test_vectors_never_decay() -> None:
    """Not even if a role calls them hidden."""
    assert {"x": False} == decay_mask({"x": torch.ones(3)}, {"x": "hidden"})


def test_patterns_take_parameters_out() -> None:
    """The policy for embeddings is one line of a config."""
    mask = decay_mask(PARAMS, no_decay=("*wte*",))

    assert not mask["wte.weight"]
    assert mask["up.weight"]


def test_the_report_lists_each_name_once() -> None:
    """In the order of the parameters."""
    report = decay_report(PARAMS)

    assert ["wte.weight", "up.weight", "conv.weight"] == report["decayed"]
    assert ["up.bias", "norm.gain"] == report["not decayed"]


def test_the_report_follows_a_mask() -> None:
    """The one that the optimizer was given."""
    assert list(PARAMS) == decay_report(PARAMS, decay_everything)["decayed"]
