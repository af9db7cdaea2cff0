"""What a parameter is for, from its module."""

import pytest
from torch import nn

from speedtronic.pure.roles import roles_of
from speedtronic.pure.transformer import Transformer


def test_the_reference_transformer_is_understood() -> None:
    """The tied head is the embedding; every matrix in a block is hidden."""
    roles = roles_of(Transformer(vocab_size=8, n_layer=1, n_head=2, d_model=8))
    hidden = {name for name, role in roles.items() if role == "hidden"}

    assert "embedding" == roles["transformer.wte.weight"]
    assert "norm" == roles["transformer.ln_f.weight"]
    assert 7 == len(hidden)


def test_an_untied_head_is_a_head() -> None:
    """It never gets a hidden matrix's optimizer."""
    model = Transformer(vocab_size=8, n_layer=1, n_head=2, d_model=8, tie_weights=False)

    assert "head" == roles_of(model)["lm_head.weight"]


def test_a_model_may_know_its_head() -> None:
    """As those of transformers do; its bias is a bias, and tied it is an embedding."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder = nn.Linear(2, 3)
            self.encoder = nn.Linear(2, 2, bias=False)

        def get_output_embeddings(self) -> nn.Module:
            return self.decoder

    assert {
        "0.decoder.weight": "head",
        "0.decoder.bias": "bias",
        "0.encoder.weight": "hidden",
    } == roles_of(nn.Sequential(Model()))


def test_types_count_more_than_names() -> None:
    """A norm that is called anything, a table that is called anything."""

    class MyNorm(nn.LayerNorm): ...

    module = nn.ModuleDict({"a": MyNorm((2, 2)), "b": nn.Embedding(3, 2)})

    assert {"a.weight": "norm", "a.bias": "norm", "b.weight": "embedding"} == roles_of(
        module
    )


def test_a_module_may_say_what_it_is() -> None:
    """For its own parameters."""
    module = nn.Linear(2, 3, bias=False)
    module.speedtronic_role = "head"  # type: ignore[assignment]

    assert {"weight": "head"} == roles_of(module)


def test_an_unknown_role_is_refused() -> None:
    """The message lists the roles."""
    module = nn.Linear(2, 3)
    module.speedtronic_role = "haed"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="expected one of embedding"):
        roles_of(module)
