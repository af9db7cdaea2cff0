"""The table of parameters and their optimizers."""

import pytest

from speedtronic.errors import ConfigError
from speedtronic.pure.config import Config, Model, Optimizer
from speedtronic.shell.assignment import assigned, table

TINY = {"n_layer": 1, "d_model": 8, "n_head": 2, "vocab_size": 16, "max_seq_len": 8}


def config(model: dict[str, object], **optimizer: object) -> Config:
    return Config(
        model=Model(**{**TINY, **model}),  # type: ignore[arg-type]
        optimizer=Optimizer(**optimizer),  # type: ignore[arg-type]
    )


def test_every_parameter_has_a_line() -> None:
    """The reference model under Muon: matrices between activations, and the rest."""
    found = assigned(config({}, name="muon"))
    optimizer = {one.name: one.optimizer for one in found.trained}

    assert () == found.frozen
    assert "adamw" == optimizer["transformer.wte.weight"]
    assert "muon" == optimizer["transformer.h.0.attn.q_proj.weight"]
    lines = list(table(found))
    assert len(optimizer) == len([x for x in lines if x.startswith("transformer.")])
    assert "muon: 7 parameters, 784 numbers" == lines[-1]


def test_frozen_parameters_are_named_apart() -> None:
    """No optimizer has them."""
    found = assigned(config({"freeze": ("*.wte.*",)}))

    assert ("transformer.wte.weight",) == found.frozen
    assert "frozen: 1 parameter: transformer.wte.weight" == list(table(found))[-1]


def test_patterns_are_checked() -> None:
    """As when training begins."""
    with pytest.raises(ConfigError, match="model.freeze: 'no' matches no parameter"):
        assigned(config({"freeze": ("no",)}))
    with pytest.raises(ConfigError, match="optimizer.no_decay: pattern 'no' matches"):
        assigned(config({}, no_decay=("no",)))
